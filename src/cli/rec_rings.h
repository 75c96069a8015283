/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rec_rings.h -- while a run is recorded, the rows of the targets' rings go into its folder.
 *
 * A thread of its own looks once a second: the sampler's clock is not kept waiting.
 *
 * Used by: cli/cmd_record.c.
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
};

/* Starts to drain; a target that has no rings (yet) is looked at again each second.
 * Fails with NOMEM, EXISTS, NOWRITE. */
GSP_MUST_CHECK int gsp_rec_rings_start(const struct gsp_rec_rings_opts *opts,
                                       struct gsp_rec_rings **out, struct gsp_err *err);
/* Drains what is there, makes one file of each table's segments, and frees it.  NULL does
 * nothing.  Fails when rows could not be written: those are in the rings still. */
GSP_MUST_CHECK int gsp_rec_rings_stop(struct gsp_rec_rings *rings, struct gsp_drain_stats *stats,
                                      struct gsp_err *err);
