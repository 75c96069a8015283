/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grid.h -- a table of short texts: collected cell by cell, then written as text or Markdown.
 *
 * For rows of a query see rows_table.h.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define GSP_REPORT_GRID_COLUMNS_MAX 8U

enum gsp_report_grid_kind {
    GSP_REPORT_GRID_NUMBER, /* aligned to the right, never cut */
    GSP_REPORT_GRID_TEXT,   /* cut at the end if the table is too wide */
    GSP_REPORT_GRID_PATH,   /* cut at the start */
};

struct gsp_report_grid_column {
    const char *name;
    enum gsp_report_grid_kind kind;
    unsigned width_min;
};

/* Initialize the columns and zero the rest. */
struct gsp_report_grid {
    struct gsp_report_grid_column columns[GSP_REPORT_GRID_COLUMNS_MAX];
    size_t column_count;
    struct gsp_buf cell;  /* the next cell: append to it; not escaped */
    struct gsp_buf bytes; /* of all cells */
    struct gsp_buf ends;  /* size_t: the end of each cell, and of the note of each row */
};

/* Ends the cell. */
void gsp_report_grid_cell(struct gsp_report_grid *grid);
/* Ends the row. Text in grid->cell is a note, written on a line below the row, in the last
 * column. Markdown has no notes. */
void gsp_report_grid_row(struct gsp_report_grid *grid);
/* Appends the table as text of at most `width` columns (0: as wide as the cells), or as Markdown.
 * Cells are escaped. If memory ran out, out->failed is set. */
void gsp_report_grid_text(const struct gsp_report_grid *grid, unsigned width, struct gsp_buf *out);
void gsp_report_grid_markdown(const struct gsp_report_grid *grid, struct gsp_buf *out);
void gsp_report_grid_free(struct gsp_report_grid *grid);

/* Appends text cut to at most `width` columns, with an ellipsis at the end or (from_left) at the
 * start. Returns the columns used. */
unsigned gsp_report__text_cut(struct gsp_sv text, unsigned width, bool from_left,
                              struct gsp_buf *out);
/* Appends text for Markdown; markup and HTML are escaped. */
void gsp_report_markdown_text(struct gsp_buf *out, struct gsp_sv text);
