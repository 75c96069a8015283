/* SPDX-License-Identifier: Apache-2.0 */
/*
 * made_rows.h -- rows that a command makes itself, to be written as the rows of a query are.
 *
 * Values are added column by column, row by row.  A failed allocation is remembered and told by
 * gsp_rows_next().
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

/* The columns are copied, their names kept; kinds are I64, BOOL and TEXT. */
GSP_MUST_CHECK int gsp_made_rows_new(const struct gsp_rows_column *columns, size_t count,
                                     struct gsp_made_rows **out, struct gsp_err *err);
/* What formatters take; borrowed, and good for one reading.  gsp_rows_free() frees all. */
struct gsp_rows *gsp_made_rows_get(struct gsp_made_rows *made);

void gsp_made_i64(struct gsp_made_rows *made, int64_t v); /* INT64_MIN is NULL */
void gsp_made_bool(struct gsp_made_rows *made, bool v);
void gsp_made_text(struct gsp_made_rows *made, struct gsp_sv v); /* copied; without bytes: NULL */
