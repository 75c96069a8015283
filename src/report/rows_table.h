/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_table.h -- the rows of a query as a text table.
 *
 * Text is cut to the width, with an ellipsis; numbers are not. If a result has too many columns, it
 * is written with one value per line if it has few rows; otherwise the columns that do not fit are
 * listed below the table. Integers are exact, other numbers have six significant figures. Control
 * characters are escaped. Without a width (a pipe), nothing is cut. The first rows determine the
 * widths; the others are written as they arrive.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Terminal codes of a table and its headings. */
#define GSP_STYLE_BOLD "\033[1m"
#define GSP_STYLE_DIM  "\033[2m"
#define GSP_STYLE_OFF  "\033[0m"

struct gsp_rows_table; /* opaque */

struct gsp_rows_table_opts {
    unsigned width; /* columns of the terminal; 0: unlimited */
    bool color;     /* bold names, dim NULL */
    bool vertical;  /* one value per line, regardless of the number of columns */
    /* For tables of our own: the number of leading columns that are not cut, and the minimum width
     * of text in the others. Trailing columns are left out instead. 0: default. */
    unsigned whole;
    unsigned text_min;
};

/* Reads the first rows; `rows` must outlive the table. Fails as gsp_rows_next() does, and with
 * NOMEM. */
GSP_MUST_CHECK int gsp_report_rows_table_new(struct gsp_rows *rows,
                                             const struct gsp_rows_table_opts *opts,
                                             struct gsp_rows_table **out, struct gsp_err *err);
void gsp_report_rows_table_free(struct gsp_rows_table *table); /* NULL does nothing */

/* The number of lines of the rows read so far, to decide whether to use a pager. */
size_t gsp_report_rows_table_lines(const struct gsp_rows_table *table);

bool gsp_report__rows_table_is_empty(const struct gsp_rows_table *table);

/* Reads the remaining rows and writes the table; call it once. Fails as gsp_report_rows_table_new()
 * does and, through gsp_out_finish(), with IO. */
GSP_MUST_CHECK int gsp_report_rows_table_write(struct gsp_rows_table *table, struct gsp_out *out,
                                               struct gsp_err *err);
