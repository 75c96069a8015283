/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function_table.h -- the functions of a profile with their own and total weights.
 *
 * Threads: constant once built.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/profile.h"
#include "model/tree.h"
#include "report/profile.h"

struct gsp_function_row {
    uint32_t label; /* of the tree */
    uint32_t frame; /* of the profile */
    uint32_t line;  /* as shown; 0: none */
    uint64_t own_count;
    uint64_t total_count; /* recursive calls count once */
    int64_t own_weight;
    int64_t total_weight;
};

struct gsp_function_table {
    struct gsp_tree *tree; /* without nodes of processes and threads */
    struct gsp_function_row *rows;
    size_t count;
    enum gsp_unit unit;
};

GSP_MUST_CHECK int gsp_report__function_table_new(const struct gsp_profile *profile,
                                                  const struct gsp_view_options *view,
                                                  enum gsp_report_sort sort,
                                                  struct gsp_function_table *out,
                                                  struct gsp_err *err);
void gsp_report__function_table_free(struct gsp_function_table *table);

/* Percentage of the total weight, or of the count if the total weight is 0. */
double gsp_report__percent_of(const struct gsp_tree *tree, int64_t weight, uint64_t count);

/* Append the name of the function and "file:line", not escaped. */
void gsp_report__function_put(const struct gsp_profile *profile, const struct gsp_function_row *row,
                              struct gsp_buf *out);
void gsp_report__location_put(const struct gsp_profile *profile,
                              const struct gsp_view_options *view,
                              const struct gsp_function_row *row, struct gsp_buf *out);

/* opts->width with default and minimum applied. */
unsigned gsp_report__table_width(const struct gsp_profile_report_opts *opts);
