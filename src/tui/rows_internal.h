/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_internal.h -- helpers for building lists and trees.
 *
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

/* Adds a row with kind and id, otherwise zero; NULL if memory runs out. Moves the other rows. */
struct gsp_top_row *gsp_rows__add(struct gsp_rows_maker *build, enum gsp_top_row_kind kind,
                                  uint32_t id);
/* Returns whether the query selects this sum. */
bool gsp_rows__wanted(const struct gsp_rows_maker *build, const struct gsp_top_sum *sum);
/* Computes a key: frames that are equal in the view have equal keys. */
void gsp_rows__key(const struct gsp_rows_maker *build, uint32_t frame, uint64_t *a, uint64_t *b);
void gsp_rows__add_own(struct gsp_rows_maker *build, struct gsp_top_row *row,
                       const struct gsp_top_sum *sum);
void gsp_rows__add_total(struct gsp_rows_maker *build, struct gsp_top_row *row,
                         const struct gsp_top_sum *sum);
void gsp_rows__set_pct(const struct gsp_rows_maker *build, struct gsp_top_row *row);
bool gsp_rows__matches(const struct gsp_rows_maker *build, const struct gsp_top_row *row);
/* Compares for qsort: the row that comes first is less. */
int gsp_rows__compare(const struct gsp_rows_maker *build, const struct gsp_top_row *x,
                      const struct gsp_top_row *y);
/* Builds the rows of a tree; false if memory runs out. */
bool gsp_rows__make_tree(struct gsp_rows_maker *build);
