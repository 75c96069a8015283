/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation_source.h -- python.allocation: what call sites of a process have allocated, freed and
 * hold, as rows that are made when a query reads them; and a recording of memory as tables.
 *
 * Of a process, live or dead, there are three rows for each site (alloc, free, live), all since
 * counting began, and one (peak) for what it held when the process held the most.  Of a recording
 * there are rows for each look: what was allocated and freed since the look before, and what is
 * held.  python.stack has the frames of either.
 *
 * Used by: endpoint.c; whoever makes the tables of a run.
 * Threads: the store calls back in one thread at a time.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "memlog/log.h"
#include "ring/dir.h"
#include "store/batch.h"
#include "store/store.h"

/* Appends rows of python.allocation, or of python.stack, by the table of the batch; place is a
 * struct gsp_ring_dir.  A process that does not count has no rows.  Fails with FORMAT, PERM, NOMEM.
 */
GSP_MUST_CHECK int gsp_allocation_fill(void *place, struct gsp_batch *batch, struct gsp_err *err);

/* Shows them to queries, if the process counts; its owner keeps the place until the store is
 * closed. */
GSP_MUST_CHECK int gsp_allocation_add(struct gsp_store *store, struct gsp_ring_dir *place,
                                      struct gsp_err *err);

/* Shows a recording: python.allocation, python.stack, and the resident bytes as process.metrics. */
GSP_MUST_CHECK int gsp_allocation_add_log(struct gsp_store *store, const struct gsp_memlog *log,
                                          struct gsp_err *err);
