/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h -- writes rows of one table as a Parquet file, completely or not at all.
 *
 * The engine writes a hidden file, which is renamed when it is on disk.
 *
 * Threads: no state; each call opens its own store.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "store/batch.h"

/* Suffix of the hidden files, which a killed writer leaves behind. */
#define GSP_SEGMENT_TMP ".tmp"

/* Of a written file. Tables with a key may have fewer rows than the batch: duplicates are removed.
 */
struct gsp_segment_size {
    uint64_t rows;
    uint64_t bytes;
};

/* Writes all rows of a batch, sorted by time. Takes ownership of the batch, also on failure.
 * size may be NULL. Fails with NOTSUP (no engine), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_store__segment_write(struct gsp_batch *batch, const char *folder,
                                            const char *file, struct gsp_segment_size *size,
                                            struct gsp_err *err);

/* Merges Parquet files of one table into a new file; keeps the old ones.
 * Fails also with FORMAT if a file cannot be read. */
GSP_MUST_CHECK int gsp_store__segment_merge(const char *folder, const char *const *files,
                                            size_t count, const char *file,
                                            struct gsp_segment_size *size, struct gsp_err *err);
