/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.h -- gsprof serve: collects metric frames, keeps sessions over them, answers HTTP.
 *
 * Its threads: one collects, one does maintenance (files, disk), one runs for each stack
 * recording; the HTTP server has its own.
 *
 * Threads: one owner calls open, start, reload and close.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "daemon/settings.h"

struct gsp_daemon; /* opaque */

/* Opens the port, then the frame log, the journal, the sources and the rings. Copies the settings,
 * in which paths must be absolute. Answers and collects nothing before gsp_daemon_start(), and
 * writes nothing if the port is not available.
 * Fails with EXISTS (another daemon uses the port or the state folder), NOFILE, NOWRITE, USAGE,
 * PERM, NOMEM, IO. */
GSP_MUST_CHECK int gsp_daemon_open(const struct gsp_settings *settings, struct gsp_daemon **out,
                                   struct gsp_err *err);
GSP_MUST_CHECK int gsp_daemon_start(struct gsp_daemon *daemon, struct gsp_err *err);
/* Stops collecting and listening. Active sessions stay active: the next daemon continues them. */
void gsp_daemon_close(struct gsp_daemon *daemon); /* NULL does nothing */

/* Replaces the settings that can change while the daemon runs. */
void gsp_daemon_reload(struct gsp_daemon *daemon, const struct gsp_settings_live *settings);
/* Sets the text that /status shows if new settings were rejected; "": they were accepted. */
void gsp_daemon_set_settings_error(struct gsp_daemon *daemon, const char *why);

uint16_t gsp_daemon__port(const struct gsp_daemon *daemon);
/* "http://127.0.0.1:8091". Borrowed until close. */
const char *gsp_daemon_url(const struct gsp_daemon *daemon);
#define GSP_DAEMON_CODE_BYTES 20U
/* Makes a new one-time code for the page (http/server.h). */
GSP_MUST_CHECK int gsp_daemon_login_code(struct gsp_daemon *daemon, char out[GSP_DAEMON_CODE_BYTES],
                                         struct gsp_err *err);
