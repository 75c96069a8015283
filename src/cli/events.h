/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h -- events for the program that started gsprof: one JSON object per line, written to the
 * descriptor of --ready-fd. Without that option nothing is written.
 *
 *   {"event": "ready", "pid": 4242}           recording has begun (record, run, mem record, follow)
 *   {"event": "ready", "address": "…:8091"}   the server listens
 *   {"event": "warning", "message": "…"}
 *   {"event": "error", "code": "PERM", "message": "…"}
 *   {"event": "done", "samples": 1000, "output": "profile.gsp"}   (record, run, mem record)
 *
 * A reader that is gone, or that keeps its pipe full, gets no more events; the command goes on.
 *
 * Threads: any thread may report.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

/* Sets the descriptor; -1 is none. Programs that gsprof starts do not inherit it. Fails with USAGE
 * if it is not open or is a standard stream. */
GSP_MUST_CHECK int gsp_cli__events_open(int fd, struct gsp_err *err);
/* Ends the reports: the reader sees the end of its pipe. */
void gsp_cli__events_close(void);

void gsp_cli__events_ready_pid(pid_t pid);
void gsp_cli__events_ready_address(const char *address);
void gsp_cli__events_warning(struct gsp_sv message);
/* `message` is the text printed on stderr, including hints. */
void gsp_cli__events_error(const struct gsp_err *err, struct gsp_sv message);
/* A negative number of samples and an output that is NULL are left out. */
void gsp_cli__events_done(int64_t samples, const char *output);
