/* SPDX-License-Identifier: Apache-2.0 */
/*
 * each.h -- the rows of a statement of ours, one by one.
 *
 * Used by: profile_read.c, digest/, cli/.
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

/* Called for each row; a negative value ends it and is handed on. */
typedef int (*gsp_store_row_fn)(void *ctx, const struct gsp_store_row *row, struct gsp_err *err);

/* Runs a statement.  Fails with what the store fails with, and with what take gives. */
GSP_MUST_CHECK int gsp_store_each(struct gsp_store *store, const char *sql, gsp_store_row_fn take,
                                  void *ctx, struct gsp_err *err);

/* The value of a column: GSP_NULL_I64, NaN, "" where it is NULL or of another kind.
 * Text is borrowed for the call of take. */
int64_t gsp_store_i64(const struct gsp_store_row *row, size_t column);
double gsp_store_f64(const struct gsp_store_row *row, size_t column);
struct gsp_sv gsp_store_text(const struct gsp_store_row *row, size_t column);
