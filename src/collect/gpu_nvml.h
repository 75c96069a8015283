/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_nvml.h -- the processes on a GPU, for the files of the NVML source.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

#include "collect/nvml.h"
#include "collect/source.h"

#define GSP_GPU_PROCESSES_MAX 256U

/* Name and pid of a process, from /proc, cached until until_ns. */
struct gsp_gpu_name {
    int64_t pid;
    int64_t container_pid;
    int64_t until_ns;
    char name[64];
};

/* Buffers shared by all GPUs. */
struct gsp_gpu_procs {
    struct gsp_nvml_process list[GSP_GPU_PROCESSES_MAX];
    struct gsp_nvml_sample samples[GSP_GPU_PROCESSES_MAX];
    struct gsp_gpu_name names[GSP_GPU_PROCESSES_MAX];
    struct gsp_buf text;
};

struct gsp_gpu_context {
    const struct gsp_nvml *nvml;
    const struct gsp_collect_env *env;
    const struct gsp_collect_tick *tick;
    gsp_nvml_dev dev;
    int64_t gpu;
};

/* The newest utilization sample, by the clock of the driver and by ours. */
struct gsp_gpu_samples {
    unsigned long long newest_us;
    int64_t seen_ns;
};

/* Adds a row for each process. Returns the code of the driver's process list. */
int gsp_collect__gpu_processes(struct gsp_gpu_procs *procs, const struct gsp_gpu_context *context,
                               struct gsp_gpu_samples *samples, struct gsp_collect_sink *sink);
