/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- the comparison of one view of two memory recordings.
 *
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/row_list.h"
#include "report/memory_view.h"

/* Rows of the two recordings match by name. */
struct gsp_memory_comparison_row {
    struct gsp_buf name;
    int64_t before; /* bytes */
    int64_t after;
    double var; /* of both, KiB^2 */
};

struct gsp_memory_comparison {
    struct gsp_memory_comparison_row *at; /* the largest difference first */
    size_t count;
};

/* Compares the rows of two views. The caller frees the result also after a failure. Fails with
 * NOMEM. */
GSP_MUST_CHECK int gsp_compare_memory_make(struct gsp_memory_comparison *comparison,
                                           const struct gsp_memory_view *a,
                                           const struct gsp_memory_view *b, struct gsp_err *err);
void gsp_compare_memory_free(struct gsp_memory_comparison *comparison);

/* Appends a table with the limit and the width of b. */
void gsp_compare_memory_text(const struct gsp_memory_comparison *comparison,
                             const struct gsp_memory_view *b, struct gsp_buf *out);
/* All rows; the caller frees *out with gsp_rows_free(). Fails with NOMEM. */
GSP_MUST_CHECK int gsp_compare_memory_rows(const struct gsp_memory_comparison *comparison,
                                           struct gsp_row_list **out, struct gsp_err *err);
