/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_drain.h -- copies the rows of the target's rings to the run folder while it is recorded.
 *
 * A thread drains the rings once per second, so that sampling is not delayed.
 *
 * Threads: one owner, and the thread it starts.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "record/run_file.h"
#include "store/drain.h"

struct gsp_ring_drain; /* opaque */

struct gsp_ring_drain_opts {
    const char *folder; /* of the run; copied */
    const char *shown;  /* the path of the folder in messages; copied; NULL: folder */
    pid_t pid;
    uid_t owner;       /* who runs the processes: rings of others are not drained */
    bool subprocesses; /* also drain the descendants of pid */
    /* The file of announcements.h. Its processes are drained as well, even if they live for less
     * than a second or are no longer descendants of pid. */
    const struct gsp_run_file *announcements; /* borrowed; NULL: none */
    int64_t segment_age_ns;                   /* rows are on disk after this time; 0: the default */
    bool now; /* lock the folder at once, not when the first ring is found */
};

/* Counters of the rings at the last tick. */
struct gsp_ring_drain_counts {
    uint64_t samples;  /* rows of python.stack_sample */
    uint64_t steps;    /* rows of python.torch_step */
    size_t step_rings; /* processes with steps */
    uint64_t lost;     /* rows that were overwritten before they were drained */
    int64_t looked_ns; /* time of the tick, CLOCK_MONOTONIC; 0: none yet */
    bool failing;      /* rows could not be written */
};

/* Starts the thread. Fails with NOMEM, and like gsp_store_drain_open() if now. */
GSP_MUST_CHECK int gsp_record_ring_drain_start(const struct gsp_ring_drain_opts *opts,
                                               struct gsp_ring_drain **out, struct gsp_err *err);
/* May be called from any thread. */
struct gsp_ring_drain_counts gsp_record_ring_drain_counts(struct gsp_ring_drain *rings);
/* Ends the thread, drains the remaining rows, and merges the segments of each table into one file.
 * Fails if rows could not be written: they are still in the rings. */
GSP_MUST_CHECK int gsp_record__ring_drain_finish(struct gsp_ring_drain *rings,
                                                 struct gsp_store_drain_stats *stats,
                                                 struct gsp_err *err);
/* Returns the ith drained directory; NULL after the last. To be called after
 * gsp_record__ring_drain_finish(). */
const struct gsp_ring_dir *gsp_record__ring_drain_dir_at(const struct gsp_ring_drain *rings,
                                                         size_t i);
void gsp_record__ring_drain_free(
    struct gsp_ring_drain *rings); /* after finish; NULL does nothing */
/* Finishes and frees. NULL does nothing. */
GSP_MUST_CHECK int gsp_record_ring_drain_stop(struct gsp_ring_drain *rings,
                                              struct gsp_store_drain_stats *stats,
                                              struct gsp_err *err);
