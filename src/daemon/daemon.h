/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.h -- gsprof serve: one stream of frames, sessions over it, HTTP in front.
 *
 * Threads of its own: one that collects, one that tends (files, disk), those of the HTTP server,
 * one for each recording of stacks.
 * Used by: cli/ (serve).
 * Threads: open, start, reload and close from one owner.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "daemon/settings.h"

struct gsp_daemon; /* opaque */

/* Opens the port, then the log, the journal, the sources and the rings; settings are copied.
 * Paths in them are absolute.  Nothing is answered or collected before gsp_daemon_start(), and
 * nothing is written when the port cannot be had.
 * Fails with EXISTS (the port, or the state folder, is another daemon's), NOFILE, NOWRITE, USAGE,
 * PERM, NOMEM, IO. */
GSP_MUST_CHECK int gsp_daemon_open(const struct gsp_settings *settings, struct gsp_daemon **out,
                                   struct gsp_err *err);
GSP_MUST_CHECK int gsp_daemon_start(struct gsp_daemon *daemon, struct gsp_err *err);
/* Stops collecting and listening.  Active sessions stay active: the next daemon goes on. */
void gsp_daemon_close(struct gsp_daemon *daemon); /* NULL does nothing */

/* The settings that can change while the daemon runs, anew. */
void gsp_daemon_reload(struct gsp_daemon *daemon, const struct gsp_settings *settings);
/* Why new settings could not be taken, for /status; "": they were. */
void gsp_daemon_note_settings(struct gsp_daemon *daemon, const char *why);

uint16_t gsp_daemon_port(const struct gsp_daemon *daemon);
