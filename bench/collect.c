/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- measures the CPU time of reading each metric source once, and all of them. Prints
 * the medians in microseconds as JSON.
 *
 * usage: collect ROUNDS PID...       PID: the processes to watch
 */
#include "collect/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

#define SOURCES_MAX 16U
#define ROUNDS_MAX  1000000
#define PIDS_MAX    64

struct counting_sink {
    struct gsp_collect_sink sink; /* must be the first member */
    size_t rows;
};

static uint32_t intern(struct gsp_collect_sink *sink, enum gsp_table_id table, struct gsp_sv text)
{
    (void)sink;
    (void)table;
    return text.len > 0;
}

static void row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *values)
{
    (void)table;
    (void)values;
    ((struct counting_sink *)sink)->rows++;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * GSP_NS_PER_S + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    const int middle = count / 2;
    return (double)values[middle] / 1000;
}

static void measure(size_t source_count, void **sources, int rounds, int64_t *values)
{
    struct counting_sink sink = {{intern, row}, 0};
    int64_t *sums = values + source_count * (size_t)rounds;
    for (int r = 0; r < rounds; r++) {
        const struct gsp_collect_tick tick = {gsp_realtime_ns(), gsp_now_ns()};
        sums[r] = 0;
        for (size_t i = 0; i < source_count; i++) {
            const int64_t begin = cpu_ns();
            if (sources[i])
                gsp_collect__collector_type_at(i)->read(sources[i], &tick, &sink.sink);
            values[i * (size_t)rounds + (size_t)r] = cpu_ns() - begin;
            sums[r] += values[i * (size_t)rounds + (size_t)r];
        }
        usleep(1000); /* let the caches get cold, as in real use */
    }
    printf("{");
    for (size_t i = 0; i < source_count; i++) {
        if (sources[i])
            printf("\"%s\": %.2f, ", gsp_collect__collector_type_at(i)->name,
                   median_us(&values[i * (size_t)rounds], rounds));
    }
    printf("\"all\": %.2f, \"rows\": %zu}\n", median_us(sums, rounds), sink.rows / (size_t)rounds);
}

int main(int argc, char **argv)
{
    const struct gsp_collect_env env = gsp_collect_env_here();
    void *sources[SOURCES_MAX] = {0};
    const int rounds = argc >= 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    int32_t pids[PIDS_MAX];
    size_t pid_count = 0;
    size_t count = 0;
    if (rounds <= 0 || rounds > ROUNDS_MAX || argc > 2 + PIDS_MAX) {
        fprintf(stderr, "usage: %s ROUNDS PID...\n", argv[0]);
        return 64;
    }
    for (int i = 2; i < argc; i++)
        pids[pid_count++] = (int32_t)strtol(argv[i], NULL, 10);
    for (; count < SOURCES_MAX && gsp_collect__collector_type_at(count); count++) {
        const struct gsp_collector_type *type = gsp_collect__collector_type_at(count);
        if (type->open(&env, &sources[count], NULL) == 0 && type->watch)
            type->watch(sources[count], pids, pid_count);
    }
    int64_t *values = calloc((count + 1) * (size_t)rounds, sizeof(*values));
    if (!values)
        return 70;
    measure(count, sources, rounds, values);
    for (size_t i = 0; i < count; i++)
        gsp_collect__collector_type_at(i)->close(sources[i]);
    free(values);
    return 0;
}
