/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_list.h -- rows that a command builds itself, for the same formatters as the rows of a query.
 *
 * Values are added column by column, row by row. If memory runs out, gsp_rows_next() reports it.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/rows.h"

#define GSP_MADE_COLUMNS_MAX 16U

struct gsp_made_rows; /* opaque */

/* Copies the columns but not their names. Kinds are I64, BOOL and TEXT. Fails with LIMIT, NOMEM. */
GSP_MUST_CHECK int gsp_made_rows_new(const struct gsp_rows_column *columns, size_t count,
                                     struct gsp_made_rows **out, struct gsp_err *err);
/* Returns the rows; borrowed, and can be read once. gsp_rows_free() frees the list. */
struct gsp_rows *gsp_made_rows_get(struct gsp_made_rows *list);

void gsp_made_i64(struct gsp_made_rows *list, int64_t v); /* INT64_MIN is NULL */
void gsp_made_bool(struct gsp_made_rows *list, bool v);
void gsp_made_text(struct gsp_made_rows *list, struct gsp_sv v); /* copied; v.p == NULL is NULL */
