/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contrast.h -- two lists of numbers compared: how much their means differ, and how surely.
 *
 * Bounds are of a bootstrap, p is of a permutation test of the difference in units of its own
 * error, so that neither shape nor unequal spread of the values matters much.  Values that follow
 * each other in time are taken in blocks as long as they hang together; lists longer than
 * blocks_max are taken in blocks in any case, which changes nothing in what the mean can tell and
 * bounds the time.
 * The same values and options give the same answer.
 *
 * Used by: contrast/, pyext/.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct gsp_contrast_opts {
    size_t rounds;     /* of the bootstrap, and of the permutation; at least 1 */
    size_t blocks_max; /* on a side; 0: as many as there are values */
    double confidence; /* 0..1 */
    bool ordered;      /* the values are in the order of time and may hang together */
};

struct gsp_contrast {
    double low; /* bounds of mean(b) - mean(a) */
    double high;
    double share_low; /* bounds of the difference as a share of mean(a); NaN when that is 0 */
    double share_high;
    double p;         /* how often chance alone makes them differ as much */
    size_t blocks[2]; /* what each side came to */
    bool is_exact;    /* all ways of dealing the values out were tried */
    bool is_enough;   /* p could be below 5 % at all */
};

/* Both sides need two values, all finite.  A side that comes to fewer than two blocks leaves low,
 * high and p NaN.  False when there is no memory. */
GSP_MUST_CHECK bool gsp_stats_contrast(const double *const values[2], const size_t counts[2],
                                       const struct gsp_contrast_opts *opts,
                                       struct gsp_contrast *out);
