/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak.h -- which sites keep growing: told by the trend of what they hold, not by its amount.
 *
 * The recording is cut into stretches of equal time; of each counts the least that a group of sites
 * held within it, so what comes and goes is not seen.  The first quarter is warm-up.  A group is
 * accused when the rest rises without chance (Mann and Kendall), in its last third at no less than
 * half of the whole's pace, by no single leap, and without falling back by half of the growth.  So
 * neither caches that fill up nor what a garbage collector clears away is accused.
 *
 * Used by: view.h, cli/ (mem report), tests.
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

#define GSP_MEMLEAK_STRETCHES     64U
/* Fewer than these cannot show a trend. */
#define GSP_MEMLEAK_STRETCHES_MIN 12U

struct gsp_memleak {
    uint32_t group;
    double bytes_per_s;    /* by which it grows */
    double bytes_per_step; /* NaN when steps are not known */
    double z;              /* of the test: how sure */
    int64_t growth_bytes;  /* from the end of warm-up to the end of the recording */
    int64_t live_bytes;    /* at the end */
};

struct gsp_memleaks {
    struct gsp_memleak *at; /* the fastest first */
    size_t count;
    size_t stretches; /* below GSP_MEMLEAK_STRETCHES_MIN: too short a recording to tell */
    int64_t from_ns;  /* where warm-up ends */
    int64_t to_ns;
    double steps; /* in that time; NaN: not known */
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memleaks_find(const struct gsp_memlog *log,
                                     const struct gsp_memgroups *groups, struct gsp_memleaks *out,
                                     struct gsp_err *err);
void gsp_memleaks_free(struct gsp_memleaks *leaks);

/* Whether a series of what was held, one value a stretch, is a leak's.  least: growth that is worth
 * a word.  *slope is bytes a stretch, *z how sure.  False also without memory. */
bool gsp_memleak_judge(const double *held, size_t count, double least, double *slope, double *z);
