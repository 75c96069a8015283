/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h -- moves rows from the rings of processes to Parquet segments in a folder.
 *
 * A tick copies the new rows. When there are enough of them, or they are old enough, it writes them
 * as a segment and lists the segment in the manifest. If the drainer is killed at any time, each
 * row is either in a listed segment or in its ring after the manifest's cursor, never in both.
 * Rows that were overwritten before they were copied are counted.
 * A folder has one drainer at a time.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "ring/dir.h"
#include "store/batch.h"
#include "store/manifest.h"
#include "wire/table.h"

struct gsp_drain_options {
    size_t segment_rows;    /* write a segment at this many rows; 0: 200,000 */
    int64_t segment_age_ns; /* ... or at this age of the oldest row; 0: 10 s */
    uint64_t retain_bytes;  /* of all segments: the oldest are removed; 0: no limit */
    size_t merge_count;     /* merge this many small segments of a table; 0: 8 */
};

struct gsp_store_drain_stats {
    uint64_t rows;     /* written by this drainer */
    uint64_t segments; /* written by this drainer */
    uint64_t lost;     /* rows overwritten before they were copied */
    uint64_t removed;  /* rows removed to stay within retain_bytes */
};

struct gsp_drain; /* opaque */

/* The folder must exist. Removes the unfinished files of a killed drainer and continues where that
 * one stopped.
 * Fails with EXISTS (another drainer is running), FORMAT (malformed manifest), NOWRITE, ... */
GSP_MUST_CHECK int gsp_store_drain_open(const char *folder, const struct gsp_drain_options *options,
                                        struct gsp_drain **out, struct gsp_err *err);
/* Writes nothing: rows that are not written yet stay in the rings. */
void gsp_store_drain_close(struct gsp_drain *drain); /* NULL does nothing */

/* Adds a ring directory to drain; adding one again is allowed. */
GSP_MUST_CHECK int gsp_store_drain_add_ring_dir(struct gsp_drain *drain,
                                                const struct gsp_ring_dir *dir,
                                                struct gsp_err *err);

/* Copies the new rows and writes those that are due, or all of them with flush. A failed write
 * changes nothing on disk; the next tick copies the rows again if the rings still have them. */
GSP_MUST_CHECK int gsp_store_drain_tick(struct gsp_drain *drain, bool flush, struct gsp_err *err);
/* Writes rows that are in no ring as a segment. Takes ownership of the batch, also on failure. An
 * empty batch writes nothing. */
GSP_MUST_CHECK int gsp_store_drain_write(struct gsp_drain *drain, struct gsp_batch *batch,
                                         struct gsp_err *err);
/* Merges the segments of each table into one file, <schema>.<table>.parquet unless that is a
 * listed segment already. */
GSP_MUST_CHECK int gsp_store_drain_merge_all(struct gsp_drain *drain, struct gsp_err *err);

struct gsp_store_drain_stats gsp_store_drain_stats(const struct gsp_drain *drain);
/* Returns how many rows the rings of a table have published; *rings: the rings that are open. */
uint64_t gsp_store_drain_published(const struct gsp_drain *drain, enum gsp_table_id table,
                                   size_t *rings);
/* Returns a drained directory; NULL past the last. Borrowed until the next is added. */
const struct gsp_ring_dir *gsp_store_drain_ring_dir_at(const struct gsp_drain *drain, size_t i);
