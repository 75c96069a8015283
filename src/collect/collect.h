/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h -- what the machine and its processes tell about themselves: one file a source.
 *
 * Gives:   rows of the tables of wire/tables.def (system.cpu, gpu.metrics, ...), to a sink.
 * Reads:   /proc, /sys, NVML.  Roots and libraries are given by the caller, so that tests can
 *          put a made-up tree in their place.
 * Used by: daemon/, later gsprof run and the Python package.
 * Threads: one owner.
 *
 * A source that fails blanks its own values (NULL) and says why; it never fails the tick.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "wire/table.h"

struct gsp_collect_env {
    const char *proc_root;    /* "/proc" */
    const char *sys_root;     /* "/sys" */
    const char *nvml_library; /* "libnvidia-ml.so.1" */
    double carbon_g_per_kwh;  /* of the grid; 0: not known, no carbon_grams */
    double cpu_tdp_watts;     /* of all processors, for the estimate of energy; 0: a guess */
    bool pss;                 /* proportional memory of processes: costs milliseconds each */
};

/* This machine. */
static inline struct gsp_collect_env gsp_collect_env_here(void)
{
    return (struct gsp_collect_env){
        .proc_root = "/proc", .sys_root = "/sys", .nvml_library = "libnvidia-ml.so.1"};
}

/* The moment that a tick's rows carry. */
struct gsp_tick {
    int64_t ts_ns;   /* CLOCK_REALTIME */
    int64_t mono_ns; /* CLOCK_MONOTONIC */
};

/* Where rows go.  A row is a struct gsp_row_...; ts_ns and mono_ns are filled by the source. */
struct gsp_sink {
    uint32_t (*intern)(struct gsp_sink *sink, enum gsp_table_id table, struct gsp_sv text);
    void (*row)(struct gsp_sink *sink, enum gsp_table_id table, const void *row);
};

struct gsp_collector; /* each source's own */

struct gsp_collector_type {
    const char *name; /* "cpu"; in status, doctor and configuration */
    const char *doc;  /* what it reads, one clause */
    /* Keeps env.  Fails when there is nothing to read here, ever (NOTSUP, with the reason); after
     * another failure it may be tried again. */
    int (*open)(const struct gsp_collect_env *env, struct gsp_collector **out, struct gsp_err *err);
    void (*read)(struct gsp_collector *self, const struct gsp_tick *tick, struct gsp_sink *sink);
    /* Why some of the last read's values are NULL; NULL when all is well.  Borrowed until the
     * next read. */
    const char *(*trouble)(const struct gsp_collector *self);
    void (*close)(struct gsp_collector *self); /* NULL does nothing */
    /* The processes to look at from now on; NULL for sources that look at none. */
    void (*watch)(struct gsp_collector *self, const int32_t *pids, size_t count);
};

/* Every source, in the order they are read; NULL past the last. */
const struct gsp_collector_type *gsp_collector_type_at(size_t i);

/* All sources that can be opened here, as one. */
struct gsp_collect; /* opaque */

GSP_MUST_CHECK int gsp_collect_open(const struct gsp_collect_env *env, struct gsp_collect **out,
                                    struct gsp_err *err);
void gsp_collect_close(struct gsp_collect *collect); /* NULL does nothing */
void gsp_collect_read(struct gsp_collect *collect, const struct gsp_tick *tick,
                      struct gsp_sink *sink);
void gsp_collect_watch(struct gsp_collect *collect, const int32_t *pids, size_t count);

/* For status and doctor: the state of the i-th source; false past the last. */
struct gsp_collect_state {
    const char *name;
    const char *doc;
    bool open;
    const char *trouble; /* why it is not open, or why values are missing; NULL: all well */
};
bool gsp_collect_state(const struct gsp_collect *collect, size_t i, struct gsp_collect_state *out);
