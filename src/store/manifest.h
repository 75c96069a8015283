/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h -- the list of a folder's segments, and how far the rings were drained into them.
 *
 * manifest.json is replaced as a whole, after its segments are on disk. If the writer is killed at
 * any time, the file lists complete segments, and its cursors match them.
 * Reading validates the manifest: a file name consists of table names and never is a path.
 *
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
/* Maximum size of manifest.json in bytes. */
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

/* Rows of the lane before `row` are in segments, or counted as lost. */
struct gsp_cursor_lane {
    uint32_t lane;
    uint64_t row;
};

struct gsp_drain_cursor {
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    int32_t pid;
    uint32_t lane_count;
    size_t lane_cap;
    uint64_t start_time;           /* of the process */
    int64_t created_ns;            /* of the ring */
    struct gsp_cursor_lane *lanes; /* sorted */
};

/* Causes of loss that a ring counts itself, since its creation. */
#define GSP_LOSS_NO_LANE "no lane"
#define GSP_LOSS_NO_FILE "file not opened"
#define GSP_LOSS_STRINGS "dictionary full"
/* A file in the ring directory is not a readable ring, or was truncated while it was read. */
#define GSP_LOSS_UNREAD  "ring not readable"
#define GSP_LOSS_CUT     "file cut"

struct gsp_segment_loss {
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    char cause[GSP_NAME_MAX];
    int64_t pid; /* GSP_NULL_I64: not of a single process */
    uint64_t count;
};

struct gsp_manifest {
    uint64_t next; /* number of the next segment */
    struct gsp_segment *segments;
    size_t segment_count;
    size_t segment_cap;
    struct gsp_drain_cursor *cursors;
    size_t cursor_count;
    size_t cursor_cap;
    struct gsp_segment_loss *losses;
    size_t loss_count;
    size_t loss_cap;
};

/* Reads manifest.json of a folder. If the file does not exist, *out is empty.
 * Fails with FORMAT, VERSION, LIMIT, PERM, IO, NOMEM; *out is then empty. */
GSP_MUST_CHECK int gsp_store__manifest_read(const char *folder, struct gsp_manifest *out,
                                            struct gsp_err *err);
/* Parses the text of a manifest. The error message does not name the file. */
GSP_MUST_CHECK int gsp_store__manifest_parse(struct gsp_sv text, struct gsp_manifest *out,
                                             struct gsp_err *err);
/* Replaces manifest.json and syncs it to disk. Fails with NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_store__manifest_write(const char *folder,
                                             const struct gsp_manifest *manifest,
                                             struct gsp_err *err);
void gsp_store__manifest_free(struct gsp_manifest *manifest); /* leaves it empty */
/* Makes a deep copy. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store__manifest_copy(const struct gsp_manifest *from,
                                            struct gsp_manifest *out, struct gsp_err *err);

GSP_MUST_CHECK int gsp_store__manifest_add_segment(struct gsp_manifest *manifest,
                                                   const struct gsp_segment *segment,
                                                   struct gsp_err *err);
void gsp_store__manifest_remove_segment(struct gsp_manifest *manifest, size_t i);

/* Returns the cursor of a ring (table, process, creation time), or NULL. Borrowed. */
struct gsp_drain_cursor *gsp_store__manifest_cursor(const struct gsp_manifest *manifest,
                                                    const struct gsp_drain_cursor *key);
/* Sets how far a lane was drained; adds a cursor for a new ring. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store__manifest_set_cursor(struct gsp_manifest *manifest,
                                                  const struct gsp_drain_cursor *key, uint32_t lane,
                                                  uint64_t row, struct gsp_err *err);
/* Returns the first row of a lane that was not drained; 0 if none was. */
uint64_t gsp_store__cursor_row(const struct gsp_drain_cursor *cursor, uint32_t lane);

/* Adds loss->count to the count of (table, cause, pid). Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store__manifest_add_loss(struct gsp_manifest *manifest,
                                                const struct gsp_segment_loss *loss,
                                                struct gsp_err *err);

/* Returns the count of (table, cause, pid). */
uint64_t gsp_store__manifest_loss(const struct gsp_manifest *manifest,
                                  const struct gsp_segment_loss *loss);

/* Whether a name is <schema>.<table>[.<number>].parquet; fills schema and table (may be NULL). */
bool gsp_store__segment_name_is_valid(const char *file, char schema[GSP_NAME_MAX],
                                      char table[GSP_NAME_MAX]);
