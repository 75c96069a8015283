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

#define GSP_ROW_LIST_COLUMNS_MAX 16U

struct gsp_row_list; /* opaque */

/* Copies the columns but not their names. Kinds are I64, BOOL and TEXT. Fails with LIMIT, NOMEM. */
GSP_MUST_CHECK int gsp_model_row_list_new(const struct gsp_rows_column *columns, size_t count,
                                          struct gsp_row_list **out, struct gsp_err *err);
/* Returns the rows; borrowed, and can be read once. gsp_rows_free() frees the list. */
struct gsp_rows *gsp_model_row_list_rows(struct gsp_row_list *list);

void gsp_model_row_list_add_i64(struct gsp_row_list *list, int64_t v); /* INT64_MIN is NULL */
void gsp_model_row_list_add_bool(struct gsp_row_list *list, bool v);
void gsp_model_row_list_add_text(struct gsp_row_list *list,
                                 struct gsp_sv v); /* copied; v.p == NULL is NULL */
