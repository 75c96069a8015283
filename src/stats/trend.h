/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trend.h -- detects whether a series rises, and how fast. The methods are robust against outliers
 * and assume no distribution of the noise.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct gsp_trend {
    double z;     /* of the Mann-Kendall test, corrected for ties; above 3 is significant */
    double slope; /* Theil-Sen: the median of the slopes of all pairs, per unit of t */
};

/* t is ascending; NULL stands for 0, 1, 2, ... With fewer than three values both results are 0.
 * Returns false if memory runs out. */
GSP_MUST_CHECK bool gsp_stats_trend(const double *t, const double *values, size_t count,
                                    struct gsp_trend *out);
