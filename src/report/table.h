/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h -- a profile summed by function: what every table of report/ is made of.
 *
 * Used by: the files of report/ alone.
 * Threads: a table never changes once made.
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

struct gsp_report_row {
    uint32_t label; /* of the tree */
    uint32_t frame; /* of the profile */
    uint32_t line;  /* as the view shows it, 0: none */
    uint64_t own_count;
    uint64_t total_count; /* a recursive function counts once */
    int64_t own_weight;
    int64_t total_weight;
};

struct gsp_report_table {
    struct gsp_tree *tree; /* without processes and threads on top */
    struct gsp_report_row *rows;
    size_t count;
    enum gsp_unit unit;
};

GSP_MUST_CHECK int gsp_report__table(const struct gsp_profile *profile,
                                     const struct gsp_view_options *view, enum gsp_report_sort sort,
                                     struct gsp_report_table *out, struct gsp_err *err);
void gsp_report__table_free(struct gsp_report_table *table);

/* Share of all in percent: of weights, or of counts in a profile whose weights sum to nothing. */
double gsp_report__pct(const struct gsp_tree *tree, int64_t weight, uint64_t count);

/* The function's name and "file:line" of a row as the view shows them; unescaped. */
void gsp_report__function(const struct gsp_profile *profile, const struct gsp_report_row *row,
                          struct gsp_buf *out);
void gsp_report__location(const struct gsp_profile *profile, const struct gsp_view_options *view,
                          const struct gsp_report_row *row, struct gsp_buf *out);

/* Appends text cut to at most width columns, an ellipsis where something is missing: at the
 * end, or (from_left) at the start.  Returns the columns used. */
unsigned gsp_report__cut(struct gsp_sv text, unsigned width, bool from_left, struct gsp_buf *out);
unsigned gsp_report__columns(struct gsp_sv text);

/* The width of opts within its limits. */
unsigned gsp_report__width(const struct gsp_report_opts *opts);
