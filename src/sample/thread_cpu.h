/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_cpu.h -- CPU time of the threads that Python does not know, by their names.
 *
 * Samples of Python do not show the workers of a library; the kernel counts what they use.
 *
 * Reads:   /proc/<pid>/task/<tid>/{schedstat,comm}, about once a second.
 * Used by: sample/record.c fills it, cli/ (record) shows it.
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

/* Looks at the threads of a process.  What those of the first look have used before does not count.
 */
void gsp_thread_cpu_look(struct gsp_thread_cpu *cpu, pid_t pid,
                         bool (*is_python)(const void *user, pid_t tid), const void *user);
void gsp_thread_cpu_sum(const struct gsp_thread_cpu *cpu, struct gsp_native_cpu *out);
void gsp_thread_cpu_free(struct gsp_thread_cpu *cpu);
/* "8.1 s of CPU: polars-0 4.1 s, polars-1 4.0 s"; the names are as the target has them. */
void gsp_native_cpu_words(const struct gsp_native_cpu *sum, struct gsp_buf *out);
