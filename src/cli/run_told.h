/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_told.h -- what the processes of `gsprof run` say of themselves.
 *
 * Each that has the Python package in it appends a line to a file: "PID", or "PID CAUSE WHY" when
 * something of it does not work there.  Nothing else tells it: the program runs on as if all were
 * well, and rows that are missing are seen by nobody.
 *
 * Used by: cmd_run.c, rec_rings.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

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

/* Reads the file; program is the process that was started.  A file that cannot be read says
 * nothing. */
void gsp_run_told_read(const char *path, pid_t program, struct gsp_run_told *out);

/* Appends one line, without its end, on what is missing and what to type next; nothing when all is
 * well.  python_dir is the package's folder, program the first word of the command. */
void gsp_run_told_fault(const struct gsp_run_told *told, const char *python_dir,
                        const char *program, struct gsp_buf *out);
