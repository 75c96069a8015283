/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_table.h -- the rows of a query as a table for people.
 *
 * Fits the width: text is cut with an ellipsis, numbers never are; a result with too many columns
 * is written with each value on a line of its own when it has few rows, else with the columns that
 * fit, and a note names the others.  Whole numbers are exact, others have six figures; control
 * characters are escaped.  Without a width (a pipe) nothing is cut.
 * The first rows decide the widths; the others are written while they come.
 *
 * Used by: cli/.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    unsigned width; /* columns of the terminal; 0: as wide as it wants to be */
    bool color;     /* names bold, NULL grey */
    bool vertical;  /* each value on a line of its own, however few columns there are */
    /* For tables whose columns are ours: so many, from the first on, are not cut, and text in the
     * others to no less than text_min; columns at the end are left out for that.  0: as it comes.
     */
    unsigned whole;
    unsigned text_min;
};

/* Reads the first rows; rows is kept.  Fails with what gsp_rows_next() fails with, and NOMEM. */
GSP_MUST_CHECK int gsp_rows_table_new(struct gsp_rows *rows, const struct gsp_rows_table_opts *opts,
                                      struct gsp_rows_table **out, struct gsp_err *err);
void gsp_rows_table_free(struct gsp_rows_table *table); /* NULL does nothing */

/* How many lines it has, as far as the rows are read: whether to page. */
size_t gsp_rows_table_lines(const struct gsp_rows_table *table);

bool gsp_rows_table_is_empty(const struct gsp_rows_table *table);

/* Writes the table, reading the rest of the rows; once.  Fails as new does and, through
 * gsp_out_finish(), with IO. */
GSP_MUST_CHECK int gsp_rows_table_write(struct gsp_rows_table *table, struct gsp_out *out,
                                        struct gsp_err *err);
