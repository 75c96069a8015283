/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.h -- does memory grow for good?
 *
 * One large allocation, a warm-up, a cache that fills, or the saw teeth of a garbage collector do
 * not deceive it.  The looks after the warm-up are cut into stretches of equal time; the lowest
 * value of a stretch is what was still held after whatever was released in it.  These floors must
 * rise: by the test of Mann and Kendall, by more than noise (the slope of Theil and Sen against the
 * scatter around it), and still so at the end.
 *
 * Used by: digest/, pyext/.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct gsp_growth {
    bool is_known; /* false: there was too little to see, and the rest is 0 */
    bool is_growing;
    double slope; /* bytes per second */
    double p;     /* the chance that values without a trend rise as much */
};

/* Looks in the order of time: seconds, and bytes. */
struct gsp_growth gsp_stats_growth(const double *t, const double *v, size_t count);
