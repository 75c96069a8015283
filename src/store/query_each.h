/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_each.h -- runs a query and calls a function for each row.
 *
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "store/store.h"

struct gsp_store_row {
    const struct gsp_rows *rows;
    const struct gsp_batch_view *batch;
    size_t at;
};

/* Called for each row. A negative result stops gsp_store_query_each(), which returns it. */
typedef int (*gsp_store_row_fn)(void *ctx, const struct gsp_store_row *row, struct gsp_err *err);

/* Runs a statement. Fails like gsp_store_query(), or with the result of visit. */
GSP_MUST_CHECK int gsp_store_query_each(struct gsp_store *store, const char *sql,
                                        gsp_store_row_fn visit, void *ctx, struct gsp_err *err);

/* Return the value of a column; GSP_NULL_I64, NaN or "" if it is NULL or has another type.
 * Text is borrowed until visit returns. */
int64_t gsp_store_row_i64(const struct gsp_store_row *row, size_t column);
double gsp_store_row_f64(const struct gsp_store_row *row, size_t column);
struct gsp_sv gsp_store_row_text(const struct gsp_store_row *row, size_t column);
