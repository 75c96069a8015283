/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare_internal.h -- functions that build a comparison.
 *
 * They record a failed allocation in compare->no_memory, which is checked once at the end.
 *
 * Threads: as compare.h.
 */
#pragma once

#include "base/array.h"
#include "base/attr.h"
#include "compare/compare.h"

/* Values of one side, ordered by time. */
struct gsp_compare_values {
    double *values;
    size_t count;
    double mean; /* NaN: compute it from the values */
};

/* The effort spent on the statistics of a row. */
struct gsp_compare_effort {
    size_t rounds;
    size_t blocks_max;
    size_t effect_max; /* maximum number of values per side for the effect size */
    bool is_unordered; /* values are independent of each other */
};

extern const struct gsp_compare_effort gsp_compare__effort_metric;
extern const struct gsp_compare_effort
    gsp_compare__effort_many; /* for tables with thousands of rows */

/* Both return a text that lives as long as the comparison; keep takes ownership of the buffer. */
struct gsp_sv gsp_compare__text_printf(struct gsp_compare *compare, const char *fmt, ...)
    GSP_PRINTF(2, 3);
struct gsp_sv gsp_compare__text_keep(struct gsp_compare *compare, struct gsp_buf *text);
/* Adds a caveat; the text is not copied. */
void gsp_compare__note_add(struct gsp_compare *compare, struct gsp_sv text);
/* gsp_array_fit_next(), noting in the comparison that memory ran out. */
#define gsp_compare__array_fit(compare, items, count)                                              \
    (gsp_array_fit_next((items), (count)) || !((compare)->no_memory = true))

/* Fills a row, except name, unit and better, from the values of both sides. Removes values that are
 * not finite. */
void gsp_compare__row_judge(struct gsp_compare *compare, struct gsp_compare_row *row,
                            struct gsp_compare_values sides[2],
                            const struct gsp_compare_effort *effort);
/* Corrects the p values of rows, which are `stride` bytes apart, for their number, and updates the
 * verdicts. */
void gsp_compare__rows_correct_p(struct gsp_compare *compare, struct gsp_compare_row *rows,
                                 size_t count, size_t stride);
/* Sets the verdict of a row from p and the intervals. */
void gsp_compare__row_decide(struct gsp_compare_row *row);

/* The steps of one side, ordered by time: duration (mean over ranks) and start. */
struct gsp_step_series {
    double *duration_s;
    double *begin_s;
    size_t count;
    size_t warmup;
};
void gsp_compare__step_series_fill(struct gsp_compare *compare, const struct gsp_report *report,
                                   int64_t warmup, struct gsp_step_series *out);
void gsp_compare__step_series_clear(struct gsp_step_series *steps);

/* Parts of the comparison. */
void gsp_compare__metrics_fill(struct gsp_compare *compare, const struct gsp_step_series steps[2]);
void gsp_compare__modules_fill(struct gsp_compare *compare);
void gsp_compare__functions_fill(struct gsp_compare *compare, enum gsp_compare_per per,
                                 const struct gsp_step_series steps[2]);
/* Sort functions and modules by their change. */
void gsp_compare__functions_sort(struct gsp_compare *compare);
void gsp_compare__modules_sort(struct gsp_compare *compare);
void gsp_compare__verdict_fill(struct gsp_compare *compare);

/* Returns the metric with this name; NULL if it does not exist. */
const struct gsp_compare_row *gsp_compare__metric_find(const struct gsp_compare *compare,
                                                       const char *name);

/* Whether a change is too large for a percentage: the first value is close to 0. */
bool gsp_compare__is_from_nothing(double share);
/* Append a change ("+4.1 %", "from ~0") and a p value ("0.0004", "<0.0001"); "-" if unknown. */
void gsp_compare__put_change(double share, struct gsp_buf *out);
void gsp_compare__put_p(double p, struct gsp_buf *out);
