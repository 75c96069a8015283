/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h -- rows leave the rings of processes for Parquet segments in a folder.
 *
 * A tick copies the rows that are new; when enough wait, or they have waited long enough, they
 * become a segment and the manifest names it.  Whatever moment the drainer dies at, each row is
 * in the segments that the manifest names, or at its place in the ring behind the manifest's
 * cursor, never both.  Rows that were overwritten before they could be copied are counted.
 * A folder has one drainer at a time.
 *
 * Used by: cli/ (record), later the daemon.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "ring/place.h"
#include "store/batch.h"
#include "store/manifest.h"
#include "wire/table.h"

struct gsp_drain_options {
    size_t segment_rows;    /* that make a segment; 0: 200,000 */
    int64_t segment_age_ns; /* rows wait no longer; 0: 10 s */
    uint64_t retain_bytes;  /* of all segments: the oldest go first; 0: no limit */
    size_t merge_count;     /* small segments of one table that become one; 0: 8 */
};

struct gsp_drain_stats {
    uint64_t rows;     /* on disk, of this drainer */
    uint64_t segments; /* written by it */
    uint64_t lost;     /* rows it came too late for */
    uint64_t removed;  /* rows removed by the limit in bytes */
};

struct gsp_drain; /* opaque */

/* The folder must be there.  What a killed drainer left unfinished is removed; where it stopped
 * is where this one goes on.
 * Fails with EXISTS (another drainer is at work), FORMAT (a manifest that is none), NOWRITE, ... */
GSP_MUST_CHECK int gsp_drain_open(const char *folder, const struct gsp_drain_options *options,
                                  struct gsp_drain **out, struct gsp_err *err);
/* Writes nothing more: what was not written is in the rings. */
void gsp_drain_close(struct gsp_drain *drain); /* NULL does nothing */

/* A process whose rings are to be drained; one that is known already changes nothing. */
GSP_MUST_CHECK int gsp_drain_add_place(struct gsp_drain *drain, const struct gsp_place *place,
                                       struct gsp_err *err);

/* Copies what is new and writes what is due; flush: everything.  A failure to write keeps what
 * is on disk; the rows are taken again by the next tick, as far as the rings have them then. */
GSP_MUST_CHECK int gsp_drain_tick(struct gsp_drain *drain, bool flush, struct gsp_err *err);
/* Rows that are in no ring become a segment too; takes the batch, also on failure.  None is no
 * failure. */
GSP_MUST_CHECK int gsp_drain_put(struct gsp_drain *drain, struct gsp_batch *batch,
                                 struct gsp_err *err);
/* The segments of each table become one file, <schema>.<table>.parquet if that is free. */
GSP_MUST_CHECK int gsp_drain_merge_all(struct gsp_drain *drain, struct gsp_err *err);

struct gsp_drain_stats gsp_drain_stats(const struct gsp_drain *drain);
/* Rows that the rings of a table have had so far, and how many rings those are. */
uint64_t gsp_drain_published(const struct gsp_drain *drain, enum gsp_table_id table, size_t *rings);
/* The processes that are drained; NULL past the last.  Borrowed until the next is added. */
const struct gsp_place *gsp_drain_place_at(const struct gsp_drain *drain, size_t i);
/* What could not be drained, and why: the newest, "" for none.  Borrowed until the next tick. */
const char *gsp_drain_trouble(const struct gsp_drain *drain);
