/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_finish.h -- what becomes of a run when its program has ended: the files of its folder, and
 * what is told of it.
 *
 * Each step does what it can: whatever fails, the rows stay where they are.
 *
 * Used by: cmd_run.c.
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "record/announcements.h"
#include "record/follow.h"
#include "record/ring_drain.h"
#include "record/run_dir.h"

struct gsp_run_finish {
    struct gsp_run_place *place;
    struct gsp_rec_rings *rings; /* freed */
    const struct gsp_run_told *told;
    const struct gsp_follow_result *followed;
    int status;                               /* of the program, as a shell has it */
    const volatile sig_atomic_t *interrupted; /* leave out what can be made later */
};

struct gsp_run_made {
    struct gsp_buf verdict; /* lines of findings; the caller frees it */
    struct gsp_buf next;    /* "Next: COMMAND\n", or empty; the caller frees it */
    struct gsp_buf notes;   /* lines about where the tables were, if that was unusual; as above */
    bool has_report;
    bool failed_early;             /* too early for a verdict, and for commands to go on with */
    struct gsp_err err;            /* what went wrong first; code 0: nothing */
    char former[GSP_RUN_PATH_MAX]; /* another run of the same command; "" */
};

/* Drains, writes profile.gsp, profile.json, report.html and meta.json. */
void gsp_run_finish(const struct gsp_run_finish *what, struct gsp_run_made *made);
