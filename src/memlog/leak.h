/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak.h -- finds sites that keep growing, by the trend of their live bytes, not by the amount.
 *
 * The recording is split into windows of equal time. The value of a window is the least that a
 * group of sites held in it, so temporary allocations have no effect. The first quarter is warm-up.
 * A group is a leak if the rest rises significantly (Mann-Kendall test), if the last third rises at
 * least half as fast as the whole, if no single jump makes up half of the growth, and if it never
 * falls back by half of the growth. So caches that fill up, and objects that a garbage collector
 * frees later, are not reported.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "memlog/group.h"
#include "memlog/log.h"

#define GSP_MEMLOG_LEAK_WINDOWS     64U
/* Minimum for a trend. */
#define GSP_MEMLOG_LEAK_WINDOWS_MIN 12U

struct gsp_memlog_leak {
    uint32_t group;
    double bytes_per_s;    /* growth */
    double bytes_per_step; /* NaN if steps are unknown */
    double z;              /* of the test */
    int64_t growth_bytes;  /* from the end of warm-up to the end of the recording */
    int64_t live_bytes;    /* at the end */
};

struct gsp_memlog_leaks {
    struct gsp_memlog_leak *at; /* fastest growth first */
    size_t count;
    size_t stretches; /* windows; below GSP_MEMLOG_LEAK_WINDOWS_MIN the recording is too short */
    int64_t from_ns;  /* end of warm-up */
    int64_t to_ns;
    double steps; /* in that time; NaN: unknown */
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memlog_leaks_find(const struct gsp_memlog *log,
                                         const struct gsp_memlog_groups *groups,
                                         struct gsp_memlog_leaks *out, struct gsp_err *err);
void gsp_memlog_leaks_free(struct gsp_memlog_leaks *leaks);

/* Whether a series of live bytes, one value per window, is a leak. least: smallest growth to
 * report. *slope is in bytes per window; *z is the test statistic. Also returns false if memory
 * runs out. */
bool gsp_memlog__leak_check(const double *held, size_t count, double least, double *slope,
                            double *z);
