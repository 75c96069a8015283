/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top.h -- the sums behind a live view: since the last reset, and of the last interval.
 *
 * Samples arrive one by one. gsp_tui_top_advance() moves the time, with or without samples;
 * gsp_tui_top_end_interval() ends an interval. Nothing is added while paused.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

/* Totals of a span of time. */
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
    int64_t now;  /* of the current interval */
};

struct gsp_top; /* opaque */

/* The profile is borrowed until gsp_tui_top_free(). Fails with NOMEM. */
GSP_MUST_CHECK int gsp_tui_top_new(const struct gsp_profile *profile, struct gsp_top **out,
                                   struct gsp_err *err);
void gsp_tui_top_free(struct gsp_top *top); /* NULL does nothing */

const struct gsp_profile *gsp_tui__top_profile(const struct gsp_top *top);

/* Adds a sample; its thread and stack are in the profile. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_tui_top_add(struct gsp_top *top, const struct gsp_sample *sample,
                                   struct gsp_err *err);
/* Adds all totals of a profile without single samples. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_tui_top_add_totals(struct gsp_top *top, struct gsp_err *err);

/* Sets the time since the start to now_ns, unless it would go back. */
void gsp_tui_top_advance(struct gsp_top *top, int64_t now_ns);
/* Ends the current interval. */
void gsp_tui_top_end_interval(struct gsp_top *top);
/* Clears all sums; the time continues. */
void gsp_tui_top_reset(struct gsp_top *top);
/* Clears all sums and sets the time: to seek in a recording. */
void gsp_tui_top_seek(struct gsp_top *top, int64_t now_ns);
void gsp_tui_top_pause(struct gsp_top *top, bool paused);

const struct gsp_top_span *gsp_tui__top_all(const struct gsp_top *top);
/* The last complete interval; the current one if none is complete. */
const struct gsp_top_span *gsp_tui_top_recent(const struct gsp_top *top);
int64_t gsp_tui__top_sum_recent(const struct gsp_top *top, const struct gsp_top_sum *sum);

size_t gsp_tui__top_sum_count(const struct gsp_top *top);
const struct gsp_top_sum *gsp_tui__top_sum_at(const struct gsp_top *top, size_t i);

/* Weight of a thread since the reset; -1 if it has no samples. */
int64_t gsp_tui__top_thread_weight(const struct gsp_top *top, uint32_t thread);

/* Percentage of a span. If weights are time, it is relative to the length of the span: one
 * thread that never waits has 100, two have 200. Otherwise it is relative to the total weight. */
double gsp_tui__top_percent(const struct gsp_top *top, const struct gsp_top_span *span,
                            int64_t weight);
