/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_internal.h -- what lists and trees have in common while they are made.
 *
 * Used by: rows.c, tree_rows.c.
 * Threads: one owner.
 */
#pragma once

#include "tui/rows.h"

struct gsp_rows_maker {
    const struct gsp_top *top;
    const struct gsp_profile *profile;
    const struct gsp_top_query *query;
    struct gsp_top_row *rows;
    size_t count;
    size_t cap;
};

/* A new row, all zero but for kind and id; NULL without memory.  Moves the others. */
struct gsp_top_row *gsp_rows__add(struct gsp_rows_maker *mk, enum gsp_top_row_kind kind,
                                  uint32_t id);
/* Does the query want this sum at all? */
bool gsp_rows__wanted(const struct gsp_rows_maker *mk, const struct gsp_top_sum *sum);
/* What is the same in the query's view has the same two words. */
void gsp_rows__key(const struct gsp_rows_maker *mk, uint32_t frame, uint64_t *a, uint64_t *b);
void gsp_rows__add_own(struct gsp_rows_maker *mk, struct gsp_top_row *row,
                       const struct gsp_top_sum *sum);
void gsp_rows__add_total(struct gsp_rows_maker *mk, struct gsp_top_row *row,
                         const struct gsp_top_sum *sum);
void gsp_rows__set_pct(const struct gsp_rows_maker *mk, struct gsp_top_row *row);
bool gsp_rows__matches(const struct gsp_rows_maker *mk, const struct gsp_top_row *row);
/* As qsort wants it: the row that comes first is less. */
int gsp_rows__compare(const struct gsp_rows_maker *mk, const struct gsp_top_row *x,
                      const struct gsp_top_row *y);
/* Makes the rows of a tree; false without memory. */
bool gsp_rows__make_tree(struct gsp_rows_maker *mk);
