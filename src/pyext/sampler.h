/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.h -- this process and its machine while blocks of code run, seen by a thread of ours.
 *
 * Reads:   the memory of this process (memwatch.h), and every source of collect/.
 * Gives:   for any stretch of time within open blocks: peaks, means and sums.
 * Used by: sampler_type.c.  No Python here: the thread never needs the interpreter.
 * Threads: every function from any thread.  After fork() the child's copy is idle; blocks that
 *          were open there end with what their own two ends tell.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct gsp_sampler; /* opaque */

struct gsp_sampler_opts {
    int64_t interval_ns;  /* between looks at the machine */
    int64_t first_ns;     /* between looks at memory at first; it grows up to interval_ns */
    double cpu_tdp_watts; /* 0: a guess */
    bool gpu;             /* ask the drivers of GPUs */
    bool reset_peak;      /* the kernel's high-water mark may be set back (highwater.h) */
};

/* How energy was come by, as bits. */
#define GSP_SAMPLER_COUNTERS 1U
#define GSP_SAMPLER_ESTIMATE 2U

/* Of a block; numbers that are not known are NaN, bytes -1. */
struct gsp_window {
    int64_t began_ns;
    int64_t ended_ns;
    int64_t user_ns; /* CPU time of all threads of this process */
    int64_t system_ns;
    int64_t first_bytes; /* resident memory */
    int64_t last_bytes;
    int64_t peak_bytes;
    int64_t gpu_peak_bytes;
    double gpu_util_pct;
    double cpu_pct; /* of the machine, or of what the control group allows */
    double memory_pct;
    double disk_pct; /* of the busiest device */
    double network_bytes;
    double joules;
    double cores;    /* that this process may use */
    unsigned energy; /* GSP_SAMPLER_COUNTERS, GSP_SAMPLER_ESTIMATE */
};

/* What a block's begin has to keep until its end. */
struct gsp_window_begin {
    int64_t at_ns;
    int64_t user_ns;
    int64_t system_ns;
    int64_t resident_bytes;
    int64_t high_water_bytes; /* the kernel's greatest since the process began */
    int64_t mark;             /* of highwater.h; -1: none */
};

/* One look at memory, for trends. */
struct gsp_memory_point {
    int64_t at_ns;
    int64_t resident_bytes;
    int64_t anonymous_bytes; /* without pages of files */
};

/* NULL when there is no memory.  Takes a first look at the machine, which rates count from. */
struct gsp_sampler *gsp_pyext__sampler_new(const struct gsp_sampler_opts *opts);
void gsp_pyext__sampler_free(struct gsp_sampler *sampler); /* NULL does nothing */

/* The thread runs while blocks are open.  When none can be had, the two ends of a block are looked
 * at all the same. */
void gsp_pyext__sampler_begin(struct gsp_sampler *sampler, struct gsp_window_begin *begin);
/* From a block's begin until now. */
void gsp_pyext__sampler_look(struct gsp_sampler *sampler, const struct gsp_window_begin *begin,
                             struct gsp_window *out);
/* Looks at memory between two moments of an open block, owned by the caller; NULL when there is no
 * memory. */
struct gsp_memory_point *gsp_pyext__sampler_memory(struct gsp_sampler *sampler, int64_t began_ns,
                                                   int64_t ended_ns, size_t *count);
/* The block ends. */
void gsp_pyext__sampler_release(struct gsp_sampler *sampler);

/* The fullest GPU's memory in use, as a share of its memory; NaN when not known. */
double gsp_pyext__sampler_gpu_share(struct gsp_sampler *sampler);
