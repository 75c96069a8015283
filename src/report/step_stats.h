/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_stats.h -- statistics of the steps of a run, and the slowest rank.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "report/document.h"

struct gsp_step_stats {
    size_t count;
    double p50_s, p95_s, max_s; /* NaN without steps */
    int64_t max_step;           /* the step that took max_s */
    size_t rank_count;          /* number of known ranks */
    int64_t slow_rank;          /* the rank with the highest median */
    double slow_p50_s;
    double rank_p50_s; /* median of the medians of all ranks */
};

GSP_MUST_CHECK int gsp_report__step_stats_compute(const struct gsp_report *report,
                                                  struct gsp_step_stats *out, struct gsp_err *err);
