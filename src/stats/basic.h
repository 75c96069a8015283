/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basic.h -- statistics of one list of numbers, effect size, and adjustment of p-values.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

double gsp_stats_mean(const double *values, size_t count); /* NaN if count is 0 */
/* Sample variance (n - 1); 0 for fewer than two values. */
double gsp_stats__variance(const double *values, size_t count);

void gsp_stats_sort(double *values, size_t count);
/* The quantile for a share of 0 to 1, interpolated linearly; NaN if count is 0. */
double gsp_stats__quantile(const double *sorted, size_t count, double share);

/* Returns the value with this rank (from 0) in sorted order. Reorders the values. */
double gsp_stats__select(double *values, size_t count, size_t rank);

/* Student's t distribution, two-sided, for any number of degrees of freedom above 0: the
 * probability of a |t| at least this large, and the inverse. */
double gsp_stats__t_tail(double t, double freedom);
double gsp_stats__t_quantile(double tail, double freedom);
/* The cumulative distribution function of the standard normal distribution. */
double gsp_stats__normal_cdf(double z);

/* Computes the autocorrelation time of a series: this number of successive values carries as much
 * information as one independent value (1: the values are independent). Reduces a long series to
 * block means first, to bound the time. Returns false if memory runs out. */
GSP_MUST_CHECK bool gsp_stats__autocorrelation_time(const double *values, size_t count,
                                                    double *out);

/* Computes the means of `blocks` successive blocks of equal length (within one value). */
void gsp_stats__block_means(const double *values, size_t count, double *means, size_t blocks);

/* Counts the warm-up values at the start, at most half of all: those more than three interquartile
 * ranges above the upper quartile of the second half. Returns false if memory runs out. */
GSP_MUST_CHECK bool gsp_stats_warmup(const double *values, size_t count, size_t *out);

/* Counts the values at the start that precede the steady state, at most half of all. Without them,
 * the squared standard error of the mean is smallest. */
size_t gsp_stats_startup(const double *values, size_t count);

/* Cliff's delta, -1 to 1: the probability that a value of b exceeds one of a, minus the probability
 * of the opposite. Sorts both lists. Returns 0 if a list is empty. */
double gsp_stats_cliffs_delta(double *a, size_t a_count, double *b, size_t b_count);

/* Adjusts p-values for multiple tests (Benjamini and Hochberg): at most about 5 % of the results
 * below 0.05 are then false positives. Ignores NaN. Returns false if memory runs out. */
GSP_MUST_CHECK bool gsp_stats_adjust_p(double *p, size_t count);
