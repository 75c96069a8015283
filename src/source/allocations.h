/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocations.h -- allocation counters as tables: python.allocation and python.stack of a process,
 * and a memory recording.
 *
 * For a process, running or exited, python.allocation has three rows per call site (alloc, free,
 * live), all since counting began, and a fourth (peak) if the site held memory at the peak of the
 * process. The rows are read when a query scans the table. A recording has rows per snapshot:
 * alloc and free since the previous snapshot, and live. python.stack has the frames of both.
 *
 * Threads: the store calls the functions from one thread at a time.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "memlog/log.h"
#include "ring/dir.h"
#include "store/batch.h"
#include "store/store.h"

/* Appends rows of python.allocation or python.stack, depending on the table of the batch. dir is
 * a struct gsp_ring_dir. Appends nothing if the process does not count allocations.
 * Fails with FORMAT, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_source_allocations_fill(void *dir, struct gsp_batch *batch,
                                               struct gsp_err *err);

/* Adds both tables to a store if the process counts allocations. Keep dir until the store is
 * closed. */
GSP_MUST_CHECK int gsp_source__allocations_add(struct gsp_store *store, struct gsp_ring_dir *dir,
                                               struct gsp_err *err);

/* Adds a recording to a store: python.allocation, python.stack, and resident memory as
 * process.metrics. */
GSP_MUST_CHECK int gsp_source__memory_recording_add(struct gsp_store *store,
                                                    const struct gsp_memlog *log,
                                                    struct gsp_err *err);
