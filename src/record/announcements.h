/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announcements.h -- the file in which the processes of a `gsprof run` announce themselves.
 *
 * Each process that loads the Python package appends a line: "PID", or "PID CAUSE DETAIL" if a part
 * of the package does not work there. Without the file such a failure would be visible only as
 * missing rows, because the program runs on.
 *
 * The file (run_file.h) is read through the descriptor of its creator, up to
 * GSP_ANNOUNCED_BYTES_MAX: its path and content belong to the program.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_ANNOUNCED_PIDS_MAX  256U
/* Lines after these bytes are ignored. They suffice for half a million processes. */
#define GSP_ANNOUNCED_BYTES_MAX ((size_t)4 << 20)

enum gsp_announced_cause {
    GSP_ANNOUNCED_NONE,
    GSP_ANNOUNCED_NOT_LOADED, /* "load": the package cannot be loaded */
    GSP_ANNOUNCED_TOO_OLD,    /* "old": the package does not support this Python version */
    GSP_ANNOUNCED_NO_RINGS,   /* "rings": the rings cannot be created */
    GSP_ANNOUNCED_NO_TORCH,   /* "torch": the package does not support this PyTorch version */
};

struct gsp_announcements {
    pid_t pids[GSP_ANNOUNCED_PIDS_MAX]; /* in the order of the lines; the program itself last */
    size_t count;
    bool inside; /* at least one process has announced itself */
    enum gsp_announced_cause cause;
    pid_t faulty;  /* the first process with a cause */
    char why[160]; /* its DETAIL, safe to print on a terminal */
};

/* Returns the pid of a line; 0 if the line is malformed. */
pid_t gsp_record__announcement_pid(struct gsp_sv line);

/* is_well: the line has no cause. */
typedef int gsp_announcement_fn(void *user, pid_t pid, bool is_well, struct gsp_err *err);

/* Calls fn for each complete line after the first *offset bytes of the file, and advances *offset.
 * fd is a regular file, or -1 for none. Stops if fn fails, and returns its error. */
GSP_MUST_CHECK int gsp_record__announcements_next(int fd, size_t *offset, gsp_announcement_fn *fn,
                                                  void *user, struct gsp_err *err);

/* Reads the file from its beginning; program is the pid of the program. fd -1: no lines. */
void gsp_record_announcements_read(int fd, pid_t program, struct gsp_announcements *out);
