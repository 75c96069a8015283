/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_internal.h -- helpers for building lists and trees.
 *
 * Threads: one owner.
 */
#pragma once

#include "tui/rows.h"

struct gsp_rows_builder {
    const struct gsp_top *top;
    const struct gsp_profile *profile;
    const struct gsp_top_query *query;
    struct gsp_top_row *rows;
    size_t count;
    size_t cap;
};

/* Adds a row with kind and id, otherwise zero; NULL if memory runs out. Moves the other rows. */
struct gsp_top_row *gsp_tui__rows_add(struct gsp_rows_builder *build, enum gsp_top_row_kind kind,
                                      uint32_t id);
/* Returns whether the query selects this sum. */
bool gsp_tui__rows_is_selected(const struct gsp_rows_builder *build, const struct gsp_top_sum *sum);
/* Computes a key: frames that are equal in the view have equal keys. */
void gsp_tui__rows_frame_key(const struct gsp_rows_builder *build, uint32_t frame, uint64_t *a,
                             uint64_t *b);
void gsp_tui__rows_add_own(struct gsp_rows_builder *build, struct gsp_top_row *row,
                           const struct gsp_top_sum *sum);
void gsp_tui__rows_add_total(struct gsp_rows_builder *build, struct gsp_top_row *row,
                             const struct gsp_top_sum *sum);
void gsp_tui__rows_set_percent(const struct gsp_rows_builder *build, struct gsp_top_row *row);
bool gsp_tui__rows_matches(const struct gsp_rows_builder *build, const struct gsp_top_row *row);
/* Compares for qsort: the row that comes first is less. */
int gsp_tui__rows_compare(const struct gsp_rows_builder *build, const struct gsp_top_row *x,
                          const struct gsp_top_row *y);
/* Builds the rows of a tree; false if memory runs out. */
bool gsp_tui__rows_build_tree(struct gsp_rows_builder *build);
