/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_nvml.h -- what the files of the NVML source share: the processes on a GPU.
 *
 * Used by: gpu_nvml.c, gpu_nvml_procs.c.
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

#include "collect/nvml.h"
#include "collect/source.h"

#define GSP_GPU_PROCESSES_MAX 256U

/* A process as /proc has it, asked once in a while. */
struct gsp_gpu_name {
    int64_t pid;
    int64_t container_pid;
    int64_t until_ns;
    char name[64];
};

/* Scratch of all GPUs. */
struct gsp_gpu_procs {
    struct gsp_nvml_process list[GSP_GPU_PROCESSES_MAX];
    struct gsp_nvml_sample samples[GSP_GPU_PROCESSES_MAX];
    struct gsp_gpu_name names[GSP_GPU_PROCESSES_MAX];
    struct gsp_buf text;
};

struct gsp_gpu_look {
    const struct gsp_nvml *nvml;
    const struct gsp_collect_env *env;
    const struct gsp_tick *tick;
    gsp_nvml_dev dev;
    int64_t gpu;
};

/* How far the samples of use go, by the driver's clock and by ours. */
struct gsp_gpu_samples {
    unsigned long long newest_us;
    int64_t seen_ns;
};

/* Gives a row for each process.  Worth the code of the driver's list of them. */
int gsp_collect__gpu_processes(struct gsp_gpu_procs *procs, const struct gsp_gpu_look *look,
                               struct gsp_gpu_samples *samples, struct gsp_sink *sink);
