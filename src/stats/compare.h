/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h -- compares the means of two lists of numbers.
 *
 * The confidence interval comes from a bootstrap, p from a permutation test of the studentized
 * difference. Neither assumes a distribution or equal variances. Time series are replaced by the
 * means of blocks that are longer than their autocorrelation time. Lists longer than blocks_max are
 * always replaced by block means, which bounds the time and does not affect the overall mean.
 * The result is deterministic.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct gsp_stats_comparison_opts {
    size_t rounds;     /* of the bootstrap and of the permutation test; at least 1 */
    size_t blocks_max; /* per side; 0: no limit */
    double confidence; /* 0..1 */
    bool ordered;      /* the values are a time series and may be correlated */
};

struct gsp_stats_comparison {
    double low; /* confidence interval of mean(b) - mean(a) */
    double high;
    double share_low; /* the same as a share of mean(a); NaN if mean(a) is 0 */
    double share_high;
    double p;         /* probability of a difference at least as large by chance */
    size_t blocks[2]; /* number of blocks on each side */
    bool is_exact;    /* every permutation was tried */
    bool is_enough;   /* enough values for p to fall below 5 % */
};

/* Both sides need at least two values, all finite. If a side has fewer than two blocks, low, high
 * and p are NaN. Returns false if memory runs out. */
GSP_MUST_CHECK bool gsp_stats_compare(const double *const values[2], const size_t counts[2],
                                      const struct gsp_stats_comparison_opts *opts,
                                      struct gsp_stats_comparison *out);
