/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_finish.h -- completes the folder of a `gsprof run` after its program has exited.
 *
 * A failed step does not keep the later ones from running, and the rows stay on disk.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "record/announcements.h"
#include "record/follow.h"
#include "record/ring_drain.h"
#include "record/run_dir.h"

struct gsp_run_finish_opts {
    struct gsp_run_dir *dir;
    struct gsp_ring_drain *rings; /* freed */
    const struct gsp_announcements *announced;
    const struct gsp_follow_result *followed;
    int status;                               /* exit status of the program, as in a shell */
    const volatile sig_atomic_t *interrupted; /* set: leave out report.html */
};

struct gsp_run_finish_result {
    struct gsp_buf verdict; /* lines of findings; the caller frees it */
    struct gsp_buf next;    /* "Next: COMMAND\n", or empty; the caller frees it */
    struct gsp_buf notes;   /* lines on unusual ring directories; the caller frees it */
    bool has_report;
    bool failed_early;               /* the program exited too early for a verdict */
    struct gsp_err err;              /* first failure; code 0: none */
    char previous[GSP_RUN_PATH_MAX]; /* another run of the same command; "": none */
};

/* Drains the rings; writes profile.gsp, profile.json, report.html and meta.json. */
void gsp_record_run_finish(const struct gsp_run_finish_opts *opts,
                           struct gsp_run_finish_result *result);
