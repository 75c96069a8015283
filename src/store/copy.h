/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h -- the values of a column from a source into a vector of the engine.
 *
 * Used by: store/ alone.
 * Threads: any number at once, into different vectors.
 */
#pragma once

#include "store/catalog.h"

struct gsp_copy {
    uint32_t column; /* of the view */
    struct gsp_source_span rows;
};

/* Every value of the vector is written, and its validity.  Rows of a ring may have been
 * overwritten meanwhile: the caller asks for the oldest afterwards. */
void gsp_store__copy_column(const struct gsp_duck *duck, const struct gsp_view *view,
                            const struct gsp_source *source, const struct gsp_copy *copy,
                            duckdb_vector out);
