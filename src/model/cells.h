/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h -- values of a query result as text, and unique names for its columns.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/rows.h"

/* Appends the digits of a 128-bit number. */
void gsp_model_cell_put_i128(struct gsp_i128 v, struct gsp_buf *out);
/* Appends the shortest text that reads back as the same number; "nan", "inf", "-inf". */
void gsp_model_cell_put_f64(double v, struct gsp_buf *out);

/* The text of a TEXT, JSON or DICT value that is not NULL: borrowed like the batch, possibly
 * invalid UTF-8. An id outside the dictionary gives an empty text. */
struct gsp_sv gsp_model_cell_text(const struct gsp_rows_column *column,
                                  const struct gsp_values *values, size_t row);
/* Appends a value that is not NULL as text: in full, not escaped. */
void gsp_model_cell_put(const struct gsp_rows_column *column, const struct gsp_values *values,
                        size_t row, struct gsp_buf *out);

/* Appends text as valid UTF-8: U+FFFD for each invalid byte. */
void gsp_model_cell_put_utf8(struct gsp_sv text, struct gsp_buf *out);

/* Unique names for columns, for formats in which names are keys. A column without a name becomes
 * column_<number from 1>; a repeated name gets _2, _3, ... */
struct gsp_rows_names {
    struct gsp_sv *at; /* one per column */
    char *bytes;
};
GSP_MUST_CHECK int gsp_model_rows_names_new(const struct gsp_rows *rows, struct gsp_rows_names *out,
                                            struct gsp_err *err);
void gsp_model_rows_names_free(struct gsp_rows_names *names); /* {0} does nothing; leaves {0} */
