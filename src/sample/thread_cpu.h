/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_cpu.h -- CPU time of the threads that are not Python's, by thread name.
 *
 * Python samples do not show the worker threads of a library, but the kernel counts their CPU time.
 *
 * Reads:   /proc/<pid>/task/<tid>/{schedstat,comm}, about once a second.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define GSP_CPU_NAMES_MAX 3U

struct gsp_named_cpu {
    char name[16];
    size_t threads;
    int64_t cpu_ns;
};

struct gsp_native_cpu {
    int64_t cpu_ns;
    size_t threads;
    struct gsp_named_cpu top[GSP_CPU_NAMES_MAX]; /* the largest first */
    size_t top_count;
};

struct gsp_thread_cpu_row;

/* All zero is empty. */
struct gsp_thread_cpu {
    struct gsp_thread_cpu_row *rows;
    size_t count;
    size_t cap;
};

/* Reads the CPU times of the threads of a process. Time that they used before the first reading
 * does not count. */
void gsp_sample__thread_cpu_update(struct gsp_thread_cpu *cpu, pid_t pid,
                                   bool (*is_python)(const void *user, pid_t tid),
                                   const void *user);
void gsp_sample__thread_cpu_sum(const struct gsp_thread_cpu *cpu, struct gsp_native_cpu *out);
void gsp_sample__thread_cpu_free(struct gsp_thread_cpu *cpu);
/* "8.1 s of CPU: polars-0 4.1 s, polars-1 4.0 s". Names are not escaped. */
void gsp_sample_native_cpu_put(const struct gsp_native_cpu *sum, struct gsp_buf *out);
