/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h -- waits for the end of a process that is not ours, and finds out how it ended.
 *
 * Reads:   a process descriptor, /proc/PID/stat while the process is a zombie, the counter of
 *          kills of its cgroup, the kernel's messages where they may be read.
 * Used by: follow.c.
 * Threads: one owner; a thread of its own waits, for the exit status can be had only until the
 *          parent asks for it (before Linux 6.15).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_watch; /* opaque */

/* Fails with NOPROC, NOTSUP (a kernel without process descriptors), NOMEM. */
GSP_MUST_CHECK int gsp_watch_open(pid_t pid, struct gsp_watch **out, struct gsp_err *err);
void gsp_watch_close(struct gsp_watch *watch); /* NULL does nothing */

bool gsp_watch_has_ended(const struct gsp_watch *watch);
/* Waits so long at most for the end; whether it came. */
bool gsp_watch_wait(const struct gsp_watch *watch, int64_t timeout_ns);

struct gsp_ending {
    int64_t signal;      /* that ended it; GSP_NULL_I64: none, or not known */
    int64_t exit_status; /* GSP_NULL_I64: it did not call exit(), or not known */
    bool was_oom;        /* the kernel killed it for want of memory */
    char detail[200];    /* in words: "was killed by signal 9 (SIGKILL)" */
};
/* After the end. */
void gsp_watch_tell(struct gsp_watch *watch, struct gsp_ending *out);

/* How a process ended, as the newest row of process.event in its folder says; false when there is
 * none. */
bool gsp_ending_read(int folder_fd, struct gsp_ending *out);

/* What a status of wait() says, in words. */
void gsp_ending_of_status(int status, bool was_oom, struct gsp_ending *out);

/* Whether a line of the kernel's messages says that it killed this process for want of memory. */
bool gsp_ending_is_oom_line(const char *line, size_t len, pid_t pid);
/* The number behind a word at the beginning of a line ("oom_kill 3"); 0 when there is none. */
uint64_t gsp_ending_counter(const char *text, size_t len, const char *word);
