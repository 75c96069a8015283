/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top.h -- the sums that a live view shows: all since the last reset, and the last interval.
 *
 * Samples come in one by one; gsp_top_advance() tells how time goes by, with or without
 * samples; gsp_top_turn() ends an interval.  While paused neither adds anything.
 *
 * Used by: tui/ (rows, text), cli/ (top).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

/* What a span of time held. */
struct gsp_top_span {
    int64_t length_ns;
    uint64_t samples;
    int64_t weight;
    int64_t gil;    /* the part of weight with the GIL */
    int64_t active; /* the part of weight on a CPU */
};

/* The sums of one thread with one stack. */
struct gsp_top_sum {
    uint32_t thread;
    uint32_t stack;
    uint64_t count; /* since the reset */
    int64_t weight;
    int64_t last; /* weight of the last interval */
    int64_t now;  /* of the one that has begun */
};

struct gsp_top; /* opaque */

/* The profile is borrowed until gsp_top_free().  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_top_new(const struct gsp_profile *profile, struct gsp_top **out,
                               struct gsp_err *err);
void gsp_top_free(struct gsp_top *top); /* NULL does nothing */

const struct gsp_profile *gsp_top_profile(const struct gsp_top *top);

/* Adds a sample, whose thread and stack are in the profile.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_top_add(struct gsp_top *top, const struct gsp_sample *sample,
                               struct gsp_err *err);
/* Adds all that the profile has, where samples are not known one by one.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_top_add_totals(struct gsp_top *top, struct gsp_err *err);

/* It is now_ns since the beginning; what lies behind cannot be changed. */
void gsp_top_advance(struct gsp_top *top, int64_t now_ns);
/* The interval that began with the last turn is complete. */
void gsp_top_turn(struct gsp_top *top);
/* Everything is forgotten, the time goes on. */
void gsp_top_reset(struct gsp_top *top);
/* Everything is forgotten, and it is now_ns: for a recording that is played from elsewhere. */
void gsp_top_seek(struct gsp_top *top, int64_t now_ns);
void gsp_top_pause(struct gsp_top *top, bool paused);

const struct gsp_top_span *gsp_top_all(const struct gsp_top *top);
/* The last interval; before the first turn, the one that has begun. */
const struct gsp_top_span *gsp_top_recent(const struct gsp_top *top);
int64_t gsp_top_sum_recent(const struct gsp_top *top, const struct gsp_top_sum *sum);

size_t gsp_top_sum_count(const struct gsp_top *top);
const struct gsp_top_sum *gsp_top_sum_at(const struct gsp_top *top, size_t i);

/* Weight of a thread since the reset; -1 for one that had no sample. */
int64_t gsp_top_thread_weight(const struct gsp_top *top, uint32_t thread);

/* Share of a span: of its time where weights are time, so that one thread that never waits has
 * 100 and two have 200; else of all its weight. */
double gsp_top_pct(const struct gsp_top *top, const struct gsp_top_span *span, int64_t weight);
