/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit_watch.h -- waits for the exit of a process that is not our child, and finds out how it
 * exited.
 *
 * Reads:   a process descriptor, /proc/PID/stat while the process is a zombie, the oom_kill counter
 *          of its cgroup, and the kernel log where that is allowed.
 * Threads: one owner. A thread of its own waits: before Linux 6.15 the exit status can be read only
 *          until the parent reaps the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_exit_watch; /* opaque */

/* Fails with NOPROC, NOTSUP (the kernel has no process descriptors), NOMEM. */
GSP_MUST_CHECK int gsp_record__exit_watch_open(pid_t pid, struct gsp_exit_watch **out,
                                               struct gsp_err *err);
void gsp_record__exit_watch_close(struct gsp_exit_watch *watch); /* NULL does nothing */

bool gsp_record__exit_watch_has_exited(const struct gsp_exit_watch *watch);
/* Waits up to timeout_ns; returns whether the process has exited. */
bool gsp_record__exit_watch_wait(const struct gsp_exit_watch *watch, int64_t timeout_ns);

struct gsp_exit_info {
    int64_t signal;      /* that ended the process; GSP_NULL_I64: none, or unknown */
    int64_t exit_status; /* GSP_NULL_I64: ended by a signal, or unknown */
    bool was_oom;        /* the kernel's OOM killer ended it */
    char detail[200];    /* as text: "was killed by signal 9 (SIGKILL)" */
};
/* Describes the exit; call it after the process has exited. */
void gsp_record__exit_watch_get(struct gsp_exit_watch *watch, struct gsp_exit_info *out);

/* Reads the exit from the newest row of process.event in a ring directory; returns false if it has
 * none. */
bool gsp_record_exit_info_read(int folder_fd, struct gsp_exit_info *out);

/* Describes a status from wait(). */
void gsp_record__exit_info_of_status(int status, bool was_oom, struct gsp_exit_info *out);

/* Whether a line of the kernel log reports that the OOM killer ended this process. */
bool gsp_record__oom_line_is_of(const char *line, size_t len, pid_t pid);
/* Returns the number after the key at the start of a line ("oom_kill 3"); 0 if no line has it. */
uint64_t gsp_record__cgroup_counter(const char *text, size_t len, const char *key);
