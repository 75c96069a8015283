/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_column.h -- copies a column of a source into a vector of the engine.
 *
 * Threads: any thread; each with its own vector.
 */
#pragma once

#include "store/catalog.h"

struct gsp_column_copy {
    uint32_t column; /* of the view */
    struct gsp_source_span rows;
};

/* Writes all values of the vector and their validity. The target may overwrite rows of a ring
 * meanwhile: the caller must check the source's oldest row afterwards. */
void gsp_store__copy_column(const struct gsp_duckdb *duck, const struct gsp_store_table *view,
                            const struct gsp_source *source, const struct gsp_column_copy *copy,
                            duckdb_vector out);
