/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thin.h -- which of many points to show: all, or the extremes of each stretch.
 *
 * Gives:   indices in rising order; the first and the last point are always among them.
 * Used by: the writers of digest/.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_thin {
    const char *v;
    size_t stride;
    size_t count;
    size_t width;   /* points of a stretch; 1: all are shown */
    size_t at;      /* the next one that was not looked at */
    size_t pending; /* found, not handed out yet; SIZE_MAX */
};

/* Values that lie stride_bytes apart, of which at most max are to be shown; those that are NaN
 * show where nothing else is. */
struct gsp_thin gsp_thin_begin(const double *v, size_t stride_bytes, size_t count, size_t max);
bool gsp_thin_next(struct gsp_thin *thin, size_t *out);
