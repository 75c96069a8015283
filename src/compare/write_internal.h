/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_internal.h -- the writers of contrast/, one file a format.
 *
 * All append to out, whose failed flag tells whether there was memory.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "compare/write.h"

void gsp_compare__json(const struct gsp_compare *compare, const struct gsp_compare_write *opts,
                       struct gsp_buf *out);
void gsp_compare__text(const struct gsp_compare *compare, const struct gsp_compare_write *opts,
                       bool is_markdown, struct gsp_buf *out);
GSP_MUST_CHECK int gsp_compare__svg(const struct gsp_compare *compare, struct gsp_out *out,
                                    struct gsp_err *err);

/* A table for people: cells are added row by row, then it is written. */
#define GSP_GRID_COLUMNS_MAX 8U
struct gsp_grid {
    const char *heads[GSP_GRID_COLUMNS_MAX];
    size_t columns;
    size_t texts;        /* columns of text, the first ones; the others are numbers */
    struct gsp_buf cell; /* the next one, to be written to */
    struct gsp_buf text; /* of all cells */
    struct gsp_buf ends; /* size_t: where each ends */
};

void gsp_grid_end(struct gsp_grid *grid); /* the cell is complete */
/* As text of at most so many columns (0: as wide as it comes; the first column is cut), or as a
 * table of Markdown. */
void gsp_grid_write(struct gsp_grid *grid, unsigned width, bool is_markdown, struct gsp_buf *out);
void gsp_grid_free(struct gsp_grid *grid);
