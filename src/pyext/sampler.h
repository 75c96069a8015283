/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.h -- samples this process and its machine, in a thread, while blocks of code run.
 *
 * Reads:   the memory of this process (memwatch.h), and every source of collect/.
 * Gives:   peaks, means and sums for any interval within open blocks.
 * Threads: every function from any thread; the sampling thread never needs the GIL. In a child of
 *          fork() the copy is idle; blocks open at the fork have only the readings of their begin
 *          and end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_sampler; /* opaque */

struct gsp_sampler_opts {
    int64_t interval_ns;  /* between samples of the machine */
    int64_t first_ns;     /* between samples of memory at first; grows to interval_ns */
    double cpu_tdp_watts; /* 0: use an estimate */
    bool gpu;             /* query the drivers of GPUs */
    bool reset_peak;      /* the kernel's high-water mark may be reset (highwater.h) */
};

/* Sources of energy values, as bits. */
#define GSP_SAMPLER_COUNTERS 1U
#define GSP_SAMPLER_ESTIMATE 2U

/* Measurements of a block; unknown numbers are NaN, unknown bytes -1. */
struct gsp_sampler_window {
    int64_t began_ns;
    int64_t ended_ns;
    int64_t user_ns; /* CPU time of all threads of this process */
    int64_t system_ns;
    int64_t first_bytes; /* resident memory */
    int64_t last_bytes;
    int64_t peak_bytes;
    int64_t gpu_peak_bytes;
    double gpu_util_pct;
    double cpu_pct; /* of the machine, or of the part that the control group allows */
    double memory_pct;
    double disk_pct; /* of the busiest device */
    double network_bytes;
    double joules;
    double cores;    /* that this process may use */
    unsigned energy; /* GSP_SAMPLER_COUNTERS, GSP_SAMPLER_ESTIMATE */
};

/* Values stored from a block's begin to its end. */
struct gsp_sampler_window_begin {
    int64_t at_ns;
    int64_t user_ns;
    int64_t system_ns;
    int64_t resident_bytes;
    int64_t high_water_bytes; /* the kernel's maximum since the process started */
    int64_t mark;             /* of highwater.h; -1: none */
};

/* One sample of memory, for trends. */
struct gsp_sampler_memory_point {
    int64_t at_ns;
    int64_t resident_bytes;
    int64_t anonymous_bytes; /* without pages of files */
};

/* Returns NULL if out of memory. Takes the first sample of the machine, from which rates count. */
struct gsp_sampler *gsp_pyext__sampler_new(const struct gsp_sampler_opts *opts);
void gsp_pyext__sampler_free(struct gsp_sampler *sampler); /* NULL does nothing */

/* Begins a block. The thread samples while blocks are open; if it cannot start, only the begin and
 * the end of a block are sampled. */
void gsp_pyext__sampler_begin(struct gsp_sampler *sampler, struct gsp_sampler_window_begin *begin);
/* Returns the measurements from a block's begin until now. */
void gsp_pyext__sampler_so_far(struct gsp_sampler *sampler,
                               const struct gsp_sampler_window_begin *begin,
                               struct gsp_sampler_window *out);
/* Returns the samples of memory in an interval of an open block, owned by the caller; NULL if out
 * of memory. */
struct gsp_sampler_memory_point *gsp_pyext__sampler_memory(struct gsp_sampler *sampler,
                                                           int64_t began_ns, int64_t ended_ns,
                                                           size_t *count);
/* Ends a block. */
void gsp_pyext__sampler_end(struct gsp_sampler *sampler);

/* Returns the used share of the fullest GPU's memory; NaN if not known. */
double gsp_pyext__sampler_gpu_share(struct gsp_sampler *sampler);
