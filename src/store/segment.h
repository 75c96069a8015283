/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h -- rows of one table as a Parquet file, there whole or not at all.
 *
 * The engine writes to a hidden name; the file gets its own once it is on disk.
 *
 * Used by: store/ (drain, run).
 * Threads: no state; each call has an engine's instance of its own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "store/batch.h"

/* Hidden files that a killed writer leaves behind end so. */
#define GSP_SEGMENT_TMP ".tmp"

/* What a file has: a table whose rows have a key has each once. */
struct gsp_segment_size {
    uint64_t rows;
    uint64_t bytes;
};

/* Writes all rows of a batch, sorted by time; takes the batch, also on failure.
 * *size may be NULL.  Fails with NOTSUP (no engine), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_segment_write(struct gsp_batch *batch, const char *folder, const char *file,
                                     struct gsp_segment_size *size, struct gsp_err *err);

/* Writes the rows of several Parquet files of one table as one; those stay.
 * A file that cannot be read fails the merge with FORMAT. */
GSP_MUST_CHECK int gsp_segment_merge(const char *folder, const char *const *files, size_t count,
                                     const char *file, struct gsp_segment_size *size,
                                     struct gsp_err *err);
