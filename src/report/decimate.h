/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decimate.h -- selects points of a long series: all, or the extremes of each interval.
 *
 * Gives:   ascending indexes that include the first and the last point.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_decimation {
    const char *v;
    size_t stride;
    size_t count;
    size_t width;   /* points per interval; 1: all points are selected */
    size_t at;      /* the next unread point */
    size_t pending; /* selected, but not returned yet; SIZE_MAX: none */
};

/* Starts a selection of at most `max` of `count` values that are stride_bytes apart. A NaN is
 * selected only if its interval has no number. */
struct gsp_decimation gsp_report__decimation_begin(const double *v, size_t stride_bytes,
                                                   size_t count, size_t max);
bool gsp_report__decimation_next(struct gsp_decimation *thin, size_t *out);
