/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.h -- detects memory that keeps growing.
 *
 * It ignores a single large allocation, a warm-up, a cache that fills, and the sawtooth pattern of
 * a garbage collector. The measurements after the warm-up are split into windows of equal time. The
 * lowest value of a window, its floor, is the memory that was never released in it. Memory grows if
 * the floors rise according to the Mann-Kendall test, if they rise by more than noise (Theil-Sen
 * slope against the scatter around it), and if they still rise at the end.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct gsp_growth {
    bool is_known; /* false: not enough data, and the other members are 0 */
    bool is_growing;
    double slope; /* bytes per second */
    double p;     /* probability of such a rise without a trend */
};

/* t: seconds, ascending. v: bytes. */
struct gsp_growth gsp_stats_growth(const double *t, const double *v, size_t count);
