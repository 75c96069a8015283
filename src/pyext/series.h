/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series.h -- the values recorded under one name.
 *
 * Gives:   count, sum, mean, spread, minimum and maximum of all values added; the values themselves
 *          up to GSP_SERIES_KEPT, beyond that a uniform random choice of that many.
 * Threads: the caller serializes calls for the same series.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GSP_SERIES_KEPT 100000

struct gsp_metric_value {
    double value;
    int64_t at_ns; /* when it was recorded; for a time: its start */
};

struct gsp_metric_series {
    uint64_t count;     /* finite values */
    uint64_t nonfinite; /* NaN and infinities: kept, but not in the statistics */
    uint64_t lost;      /* not kept, for lack of memory; in the statistics */
    double sum;
    double mean; /* running mean, for m2; sum / count is more exact */
    double m2;   /* sum of squared deviations; a plain sum of squares would lose all digits if the
                    spread is small compared to the mean */
    double min;
    double max;
    double last;
    double self_sum;  /* times: without the times nested in them */
    double outer_sum; /* times: only those not nested in others */
    int64_t first_ns;
    int64_t last_ns; /* latest end */
    uint64_t random;
    struct gsp_metric_value *kept;
    size_t kept_count;
    size_t kept_cap;
};

void gsp_pyext__series_clear(struct gsp_metric_series *series); /* frees; leaves it empty */
/* at_ns and end_ns: the interval that the value belongs to; equal for a plain value. */
void gsp_pyext__series_add(struct gsp_metric_series *series, double value, int64_t at_ns,
                           int64_t end_ns);
double gsp_pyext__series_std(
    const struct gsp_metric_series *series); /* of a sample (n - 1); 0 for fewer than 2 */
