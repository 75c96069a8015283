/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h -- which segments a folder has, and how far the rings behind them were drained.
 *
 * manifest.json is replaced as a whole, after the segments it names are on disk: whatever
 * moment a writer dies at, the file names whole segments, and cursors that fit them.
 * A manifest that is read is checked: names of files are names of tables, never paths.
 *
 * Used by: store/ (drain, run).
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "wire/table.h"

#define GSP_MANIFEST_NAME    "manifest.json"
#define GSP_MANIFEST_VERSION 1
/* Bytes of manifest.json; more is refused with LIMIT. */
#define GSP_MANIFEST_MAX     (16U << 20)
/* "schema.table.123456.parquet" */
#define GSP_SEGMENT_NAME_MAX (2 * GSP_NAME_MAX + 32)

struct gsp_segment {
    char file[GSP_SEGMENT_NAME_MAX];
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    uint64_t rows;
    uint64_t bytes;
    int64_t written_ns; /* CLOCK_REALTIME */
};

/* Rows of a lane with lower numbers are in segments, or were counted as lost. */
struct gsp_cursor_lane {
    uint32_t lane;
    uint64_t row;
};

struct gsp_ring_cursor {
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    int32_t pid;
    uint32_t lane_count;
    uint64_t start_time;           /* of the process */
    int64_t created_ns;            /* of the ring */
    struct gsp_cursor_lane *lanes; /* sorted */
};

/* Causes that a ring counts itself, from its beginning on. */
#define GSP_LOSS_NO_LANE "no lane"
#define GSP_LOSS_NO_FILE "file not opened"
#define GSP_LOSS_STRINGS "dictionary full"

struct gsp_segment_loss {
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    char cause[GSP_NAME_MAX];
    int64_t pid; /* GSP_NULL_I64: of no one process */
    uint64_t count;
};

struct gsp_manifest {
    uint64_t next; /* number of the next segment */
    struct gsp_segment *segments;
    size_t segment_count;
    struct gsp_ring_cursor *cursors;
    size_t cursor_count;
    struct gsp_segment_loss *losses;
    size_t loss_count;
};

/* Reads manifest.json of the folder into an empty manifest; none there is an empty one.
 * Fails with FORMAT, VERSION, LIMIT, PERM, IO, NOMEM: *out is empty then. */
GSP_MUST_CHECK int gsp_manifest_read(const char *folder, struct gsp_manifest *out,
                                     struct gsp_err *err);
/* The same from its text; the message does not say which file it is. */
GSP_MUST_CHECK int gsp_manifest_parse(struct gsp_sv text, struct gsp_manifest *out,
                                      struct gsp_err *err);
/* Replaces manifest.json, on disk when this returns.  Fails with NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_manifest_write(const char *folder, const struct gsp_manifest *manifest,
                                      struct gsp_err *err);
void gsp_manifest_free(struct gsp_manifest *manifest); /* leaves it empty */
/* A copy of its own.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_manifest_copy(const struct gsp_manifest *from, struct gsp_manifest *out,
                                     struct gsp_err *err);

GSP_MUST_CHECK int gsp_manifest_add_segment(struct gsp_manifest *manifest,
                                            const struct gsp_segment *segment, struct gsp_err *err);
void gsp_manifest_remove_segment(struct gsp_manifest *manifest, size_t i);

/* The cursor of a ring, by table, process and time of creation; NULL. Borrowed. */
struct gsp_ring_cursor *gsp_manifest_cursor(const struct gsp_manifest *manifest,
                                            const struct gsp_ring_cursor *key);
/* Sets how far a lane was drained; adds the cursor when it is new.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_manifest_advance(struct gsp_manifest *manifest,
                                        const struct gsp_ring_cursor *key, uint32_t lane,
                                        uint64_t row, struct gsp_err *err);
/* Row number up to which a lane was drained; 0 when it was not. */
uint64_t gsp_ring_cursor_row(const struct gsp_ring_cursor *cursor, uint32_t lane);

/* Adds to the count of (table, cause, pid). */
GSP_MUST_CHECK int gsp_manifest_lose(struct gsp_manifest *manifest,
                                     const struct gsp_segment_loss *loss, struct gsp_err *err);

/* The count of (table, cause, pid); 0 when there is none. */
uint64_t gsp_manifest_lost(const struct gsp_manifest *manifest,
                           const struct gsp_segment_loss *loss);

/* Whether a name is <schema>.<table>[.<number>].parquet; fills schema and table (may be NULL). */
bool gsp_segment_name_ok(const char *file, char schema[GSP_NAME_MAX], char table[GSP_NAME_MAX]);
