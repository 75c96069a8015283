/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trend.h -- whether a series keeps rising, and how fast: by ranks, so that no single value and no
 * shape of the noise decides it.
 *
 * Used by: memlog/, growth.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct gsp_trend {
    double z;     /* of Mann and Kendall's test, ties accounted for: above 3 is no chance */
    double slope; /* of Theil and Sen: the median of all slopes, per unit of t */
};

/* Of values at rising t; NULL: 0, 1, 2, ...  Fewer than three have no trend: both are 0.
 * False when there is no memory. */
GSP_MUST_CHECK bool gsp_stats_trend(const double *t, const double *values, size_t count,
                                    struct gsp_trend *out);
