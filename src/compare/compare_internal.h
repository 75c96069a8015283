/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare_internal.h -- what the files of contrast/ share.
 *
 * A failed allocation is remembered in compare->no_memory, and checked once at the end.
 * Threads: as compare.h.
 */
#pragma once

#include "base/attr.h"
#include "compare/compare.h"

/* Values of one side, in the order of time. */
struct gsp_side {
    double *values;
    size_t count;
    double mean; /* NaN: that of the values */
};

/* How closely rows are looked at. */
struct gsp_effort {
    size_t rounds;
    size_t blocks_max;
    size_t effect_max; /* values of a side that the effect is of */
    bool is_unordered; /* neighbours have nothing to do with each other */
};

extern const struct gsp_effort gsp_effort_metric;
extern const struct gsp_effort gsp_effort_many; /* one of thousands */

/* A text that lives as long as the comparison. */
struct gsp_sv gsp_compare__printf(struct gsp_compare *compare, const char *fmt, ...)
    GSP_PRINTF(2, 3);
struct gsp_sv gsp_compare__keep(struct gsp_compare *compare, struct gsp_buf *text);
/* Adds a line of what to keep in mind; the text is kept, not copied. */
void gsp_compare__note(struct gsp_compare *compare, struct gsp_sv text);
/* Room for one more element behind count, as gsp_digest__more(). */
void *gsp_compare__more(struct gsp_compare *compare, void *array, size_t count, size_t size);

/* Fills all of the row but name, unit and better from the values of both sides; those that are no
 * finite numbers are taken out. */
void gsp_compare__judge(struct gsp_compare *compare, struct gsp_compare_row *row,
                        struct gsp_side sides[2], const struct gsp_effort *effort);
/* Corrects p of rows that lie `stride` bytes apart for their number, and judges them anew. */
void gsp_compare__correct(struct gsp_compare *compare, struct gsp_compare_row *rows, size_t count,
                          size_t stride);
/* The verdict that p and the bounds give. */
void gsp_compare__settle(struct gsp_compare_row *row);

/* The steps of one side: duration (mean over ranks) and begin of each, in the order of time. */
struct gsp_step_series {
    double *duration_s;
    double *begin_s;
    size_t count;
    size_t warmup;
};
void gsp_compare__steps(struct gsp_compare *compare, const struct gsp_digest *digest,
                        int64_t warmup, struct gsp_step_series *out);
void gsp_step_series_clear(struct gsp_step_series *steps);

/* The parts. */
void gsp_compare__metrics(struct gsp_compare *compare, const struct gsp_step_series steps[2]);
void gsp_compare__modules(struct gsp_compare *compare);
void gsp_compare__functions(struct gsp_compare *compare, enum gsp_compare_per per,
                            const struct gsp_step_series steps[2]);
/* Puts functions, and modules, in the order of their change. */
void gsp_compare__order(struct gsp_compare *compare);
void gsp_compare__order_modules(struct gsp_compare *compare);
void gsp_compare__verdict(struct gsp_compare *compare);

/* A metric by name; NULL. */
const struct gsp_compare_row *gsp_compare__metric(const struct gsp_compare *compare,
                                                  const char *name);

/* Whether a change is so large that there was as good as nothing before: no percentage then. */
bool gsp_compare__is_from_nothing(double share);
/* For people; both append to out: a share with its sign ("+4.1 %", "from ~0"), and p ("0.0004",
 * "<0.0001"); "-" when it is not known. */
void gsp_compare__put_change(double share, struct gsp_buf *out);
void gsp_compare__put_p(double p, struct gsp_buf *out);
