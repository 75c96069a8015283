/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_stats.h -- how native stacks were had, and how long threads were stopped for them.
 *
 * Used by: sample/record.c fills it, cli/ (record, top) shows it.
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

struct gsp_mixed_stack; /* sample/mixed.h */

/* How a moment of a thread was had (sample/capture.h). */
enum gsp_capture_way {
    GSP_CAPTURE_ASLEEP,
    GSP_CAPTURE_EVENT,
    GSP_CAPTURE_STOP,
    GSP_CAPTURE_WAYS, /* how many there are */
};

/* Which ways may be tried. */
enum gsp_capture_choice {
    GSP_CAPTURE_AUTO,
    GSP_CAPTURE_ONLY_STOP,
    GSP_CAPTURE_NO_STOP, /* for tests: a stack that needs a stop is not had */
};

/* Stops by length: each bucket is a twelfth longer than the one before, from a microsecond on. */
#define GSP_STOP_BUCKETS 192U

struct gsp_native_stats {
    uint64_t stacks;
    uint64_t whole;   /* reached the thread's entry point */
    uint64_t bridged; /* had code without rules */
    uint64_t by_way[GSP_CAPTURE_WAYS];
    int64_t tick_max_ns; /* the most CPU time that a tick took of the profiler */
    uint64_t long_ticks; /* that took more of it than a period */
    int64_t stop_max_ns;
    uint64_t stops[GSP_STOP_BUCKETS];
};

void gsp_native_stats_add(struct gsp_native_stats *stats, const struct gsp_mixed_stack *stack);
/* The length that a share (0.99) of the stops did not exceed, as far as buckets tell; 0 without
 * stops. */
int64_t gsp_native_stats_stop_ns(const struct gsp_native_stats *stats, double share);
