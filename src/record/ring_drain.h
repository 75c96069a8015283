/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rec_rings.h -- while a run is recorded, the rows of the targets' rings go into its folder.
 *
 * A thread of its own looks once a second: the sampler's clock is not kept waiting.
 *
 * Used by: cli/cmd_record.c, cli/cmd_run.c.
 * Threads: one owner, and the one it starts.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "store/drain.h"

struct gsp_rec_rings; /* opaque */

struct gsp_rec_rings_opts {
    const char *folder; /* of the run; copied */
    pid_t pid;
    bool subprocesses; /* of the tree below pid too */
    /* The file that processes of the run append their pids to (run_told.h): who lives for less
     * than a second, or is nobody's child any more, is drained as well.  Copied; may be NULL. */
    const char *told_path;
    int64_t segment_age_ns; /* rows are on disk after so long; 0: the drainer's own */
    bool now;               /* lock the folder at once, also if no ring ever comes */
};

/* What the rings have had so far, as of the last look. */
struct gsp_rec_rings_seen {
    uint64_t samples;  /* rows of python.stack_sample */
    uint64_t steps;    /* of python.torch_step */
    size_t step_rings; /* processes that make steps */
    uint64_t lost;     /* rows that were overwritten too soon */
    int64_t looked_ns; /* CLOCK_MONOTONIC; 0: not yet */
    bool failing;      /* rows could not be written at the last look */
};

/* Starts to drain; a target that has no rings (yet) is looked at again each second.
 * Fails with NOMEM, EXISTS, NOWRITE. */
GSP_MUST_CHECK int gsp_rec_rings_start(const struct gsp_rec_rings_opts *opts,
                                       struct gsp_rec_rings **out, struct gsp_err *err);
/* From any thread of the owner's. */
struct gsp_rec_rings_seen gsp_rec_rings_seen(struct gsp_rec_rings *rings);
/* Ends the thread, drains what is there, and makes one file of each table's segments.  Fails when
 * rows could not be written: those are in the rings still. */
GSP_MUST_CHECK int gsp_rec_rings_finish(struct gsp_rec_rings *rings,
                                        struct gsp_store_drain_stats *stats, struct gsp_err *err);
/* The processes that were drained, after that; NULL past the last. */
const struct gsp_ring_dir *gsp_rec_rings_place_at(const struct gsp_rec_rings *rings, size_t i);
void gsp_rec_rings_free(struct gsp_rec_rings *rings); /* after finish; NULL does nothing */
/* Finishes and frees.  NULL does nothing. */
GSP_MUST_CHECK int gsp_rec_rings_stop(struct gsp_rec_rings *rings,
                                      struct gsp_store_drain_stats *stats, struct gsp_err *err);
