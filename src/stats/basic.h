/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basic.h -- figures of one list of numbers, and what many p together are worth.
 *
 * Used by: contrast/, pyext/.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

double gsp_stats_mean(const double *values, size_t count); /* NaN of none */
/* Of a sample (n - 1); 0 for fewer than two. */
double gsp_stats_variance(const double *values, size_t count);

void gsp_stats_sort(double *values, size_t count);
/* The value below which the share lies, between neighbours by a straight line; NaN of none. */
double gsp_stats_quantile(const double *sorted, size_t count, double share);

/* The value that is at this place (from 0) when they are sorted; moves them about. */
double gsp_stats_select(double *values, size_t count, size_t place);

/* How often |t| is as large by chance, and the t that chance exceeds with that probability, for so
 * many degrees of freedom (any number above 0). */
double gsp_stats_t_tail(double t, double freedom);
double gsp_stats_t_of(double tail, double freedom);
/* The share of a normal distribution below z. */
double gsp_stats_normal(double z);

/* How many values of a series, one after the other, are worth one that is independent of its
 * neighbours (1: all are).  Long series are thinned to means first, so it takes little time. */
GSP_MUST_CHECK bool gsp_stats_memory(const double *values, size_t count, double *out);

/* Means of `blocks` stretches of equal length (within one value), in order. */
void gsp_stats_blocks(const double *values, size_t count, double *means, size_t blocks);

/* How many values at the start are warm-up: those that, from the first on, lie far above the usual
 * of the second half (more than three times the middle half's width above its upper end), half of
 * all at most. */
GSP_MUST_CHECK bool gsp_stats_warmup(const double *values, size_t count, size_t *out);

/* How many values at the start belong to a rise or fall to where the others stay: so many that the
 * mean of the rest is the surest (least squared standard error), half of all at most. */
size_t gsp_stats_startup(const double *values, size_t count);

/* How much larger b is: the chance that a value of b is above one of a, less the chance that it is
 * below (Cliff's delta, -1 to 1).  Sorts both.  0 when a side is empty. */
double gsp_stats_cliff(double *a, size_t a_count, double *b, size_t b_count);

/* Makes of each p what it is worth among so many (Benjamini and Hochberg): of those then below
 * 5 %, some 5 % at most are chance.  NaN stays, and is not among them. */
GSP_MUST_CHECK bool gsp_stats_adjust(double *p, size_t count);
