/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series.h -- the numbers that were recorded under one name.
 *
 * Gives:   count, sum, mean, spread, least and greatest of all values ever added; the values
 *          themselves up to GSP_SERIES_KEPT, from then on a fair choice of so many.
 * Used by: timer.c.  No Python here, so that it can be tested without.
 * Threads: the caller keeps two from the same series.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GSP_SERIES_KEPT 100000

struct gsp_metric_value {
    double value;
    int64_t at_ns; /* when it was recorded; of a time: when that began */
};

struct gsp_metric_series {
    uint64_t count;     /* finite values */
    uint64_t nonfinite; /* NaN and infinities: kept, but in no figure */
    uint64_t lost;      /* values that no memory could be had for; they are in the figures */
    double sum;
    double mean; /* kept along, for m2; sum / count is closer */
    double m2;   /* sum of squares about the mean: a plain sum of squares loses all digits when the
                    spread is small beside the mean */
    double min;
    double max;
    double last;
    double self_sum;  /* times: without what other times took within them */
    double outer_sum; /* times: those that were within no other */
    int64_t first_ns;
    int64_t last_ns; /* end of the latest */
    uint64_t random;
    struct gsp_metric_value *kept;
    size_t kept_count;
    size_t kept_cap;
};

void gsp_pyext__series_clear(struct gsp_metric_series *series); /* frees; leaves it empty */
/* at_ns to end_ns: the moment, or the length of time, that the value belongs to. */
void gsp_pyext__series_add(struct gsp_metric_series *series, double value, int64_t at_ns,
                           int64_t end_ns);
double gsp_pyext__series_std(
    const struct gsp_metric_series *series); /* of a sample (n - 1); 0 for fewer than 2 */
