/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_stats.h -- how native stacks were captured, and how long threads were stopped for them.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

struct gsp_mixed_stack; /* sample/mixed.h */

/* The method that captured a moment of a thread (sample/capture.h). */
enum gsp_capture_method {
    GSP_CAPTURE_IDLE,
    GSP_CAPTURE_EVENT,
    GSP_CAPTURE_STOP,
    GSP_CAPTURE_METHODS, /* the number of methods */
};

/* Which methods may be tried. */
enum gsp_capture_policy {
    GSP_CAPTURE_AUTO,
    GSP_CAPTURE_ONLY_STOP,
    GSP_CAPTURE_NO_STOP, /* for tests: no sample if a stack needs a stop */
};

/* A histogram of stop lengths: each bucket is a twelfth longer than the one before, starting at
 * one microsecond. */
#define GSP_STOP_BUCKETS 192U

struct gsp_native_stats {
    uint64_t stacks;
    uint64_t whole;   /* the unwinder reached the entry point of the thread */
    uint64_t bridged; /* contained code without unwind rules */
    uint64_t by_way[GSP_CAPTURE_METHODS];
    int64_t tick_max_ns; /* the longest CPU time the profiler spent on one tick */
    uint64_t long_ticks; /* ticks that took more CPU time than one period */
    int64_t stop_max_ns;
    uint64_t stops[GSP_STOP_BUCKETS];
};

void gsp_sample__native_stats_add(struct gsp_native_stats *stats,
                                  const struct gsp_mixed_stack *stack);
/* The length that a share (0.99) of the stops did not exceed, to bucket precision; 0 without
 * stops. */
int64_t gsp_sample_native_stats_stop_ns(const struct gsp_native_stats *stats, double share);
