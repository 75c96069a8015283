/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h -- the samples of each thread as spans on the recording's time axis.
 *
 * A sample becomes a span as long as its weight. A span begins where the previous one ended,
 * unless the thread was not sampled for more than half a period; then a gap precedes it. This
 * keeps weights exact and threads aligned in time, and jitter causes no gaps. Totals, which have
 * no times, are placed end to end from time 0.
 *
 * Threads: constant once filled, except for frame_map.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/profile.h"

struct gsp_timeline {
    struct gsp_buf *threads; /* encoded spans, by thread */
    size_t thread_count;
    int64_t end;         /* the latest end of any span */
    uint32_t *frame_map; /* by frame id; zero at first, the writer decides what it holds */
};

/* Positions are in the unit of the profile: nanoseconds, samples or bytes. */
struct gsp_timeline_span {
    int64_t start; /* at or after the end of the previous span */
    int64_t len;   /* not negative */
    uint32_t stack;
};

struct gsp_timeline_iter {
    struct gsp_cursor cursor;
    int64_t end; /* of the last span */
};

/* On success the caller frees *timeline with gsp_export__timeline_free(). Fails with NOMEM. */
GSP_MUST_CHECK int gsp_export__timeline_fill(const struct gsp_profile *profile,
                                             struct gsp_timeline *timeline, struct gsp_err *err);
void gsp_export__timeline_free(struct gsp_timeline *timeline); /* {0} does nothing */

void gsp_export__timeline_iter_init(struct gsp_timeline_iter *iter,
                                    const struct gsp_timeline *timeline, uint32_t thread);
bool gsp_export__timeline_iter_next(struct gsp_timeline_iter *iter, struct gsp_timeline_span *out);
