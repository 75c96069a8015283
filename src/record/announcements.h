/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_told.h -- what the processes of `gsprof run` say of themselves.
 *
 * Each that has the Python package in it appends a line to a file: "PID", or "PID CAUSE WHY" when
 * something of it does not work there.  Nothing else tells it: the program runs on as if all were
 * well, and rows that are missing are seen by nobody.
 *
 * Used by: cmd_run.c, rec_rings.c, run_followers.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#define GSP_RUN_PIDS_MAX 256U

enum gsp_run_cause {
    GSP_RUN_FINE,
    GSP_RUN_NOT_LOADED, /* "load": the package cannot be loaded */
    GSP_RUN_TOO_OLD,    /* "old": a Python that the package does not know */
    GSP_RUN_NO_RINGS,   /* "rings": there is no place for its tables */
    GSP_RUN_NO_TORCH,   /* "torch": PyTorch has other insides than we know */
};

struct gsp_run_told {
    pid_t pids[GSP_RUN_PIDS_MAX]; /* in the order in which they spoke, the program itself at last */
    size_t count;
    bool inside; /* some process spoke */
    enum gsp_run_cause cause;
    pid_t faulty;  /* the first with a cause */
    char why[160]; /* its words, harmless to a terminal */
};

/* The process that a line is of; 0: it is none. */
pid_t gsp_run_told_pid(struct gsp_sv line);

/* is_well: the process has given no cause. */
typedef int gsp_run_told_take(void *user, pid_t pid, bool is_well, struct gsp_err *err);

/* Calls take for each line of the file that is new: *taken is how many bytes were taken before, and
 * grows.  A line that is not whole yet is for the next time, and so is a file that cannot be read.
 * Fails with what take failed with, which ends it. */
GSP_MUST_CHECK int gsp_run_told_next(const char *path, size_t *taken, gsp_run_told_take *take,
                                     void *user, struct gsp_err *err);

/* Reads the file; program is the process that was started.  A file that cannot be read says
 * nothing. */
void gsp_run_told_read(const char *path, pid_t program, struct gsp_run_told *out);
