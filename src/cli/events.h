/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h -- events for the program that started gsprof: one JSON object per line, written to the
 * descriptor of --ready-fd. Without that option nothing is written.
 *
 *   {"event": "ready", "pid": 4242}           recording has begun
 *   {"event": "ready", "address": "…:8091"}   the server listens
 *   {"event": "warning", "message": "…"}
 *   {"event": "error", "code": "PERM", "message": "…"}
 *   {"event": "done", "samples": 1000, "output": "profile.gsp"}
 *
 * Threads: each line is one write(); any thread may report.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* Sets the descriptor; -1 is none. Children of this process do not inherit it. */
void gsp_cli__events_set_fd(int fd);

void gsp_cli__events_ready_pid(pid_t pid);
void gsp_cli__events_ready_address(const char *address);
void gsp_cli__events_warning(struct gsp_sv message);
/* `message` is the text printed on stderr, including hints. */
void gsp_cli__events_error(const struct gsp_err *err, struct gsp_sv message);
void gsp_cli__events_done(uint64_t samples, const char *output);
