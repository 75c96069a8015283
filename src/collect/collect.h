/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h -- metrics of the machine and its processes: one file per source.
 *
 * Gives:   rows of the tables of wire/tables.def (system.cpu, gpu.metrics, ...), to a sink.
 * Reads:   /proc, /sys, NVML. The caller gives the roots and the library, so that tests can use a
 *          made-up tree.
 * Threads: one owner.
 *
 * A source that fails sets its own values to NULL and gives the reason; it never fails the tick.
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
    double carbon_g_per_kwh;  /* of the grid; 0: unknown, no carbon_grams */
    double cpu_tdp_watts;     /* of all processors, for the energy estimate; 0: use a guess */
    bool pss; /* read the proportional memory of processes: milliseconds per process */
};

/* This machine. */
static inline struct gsp_collect_env gsp_collect_env_here(void)
{
    return (struct gsp_collect_env){
        .proc_root = "/proc", .sys_root = "/sys", .nvml_library = "libnvidia-ml.so.1"};
}

/* The time of all rows of a tick. */
struct gsp_collect_tick {
    int64_t ts_ns;   /* CLOCK_REALTIME */
    int64_t mono_ns; /* CLOCK_MONOTONIC */
};

/* Receives rows. A row is a struct gsp_row_...; the source fills ts_ns and mono_ns. */
struct gsp_collect_sink {
    uint32_t (*intern)(struct gsp_collect_sink *sink, enum gsp_table_id table, struct gsp_sv text);
    void (*row)(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row);
};

/* A source of metrics. Each has a struct of its own, which these functions get as a void pointer.
 */
struct gsp_collector_type {
    const char *name; /* "cpu"; shown by status, doctor and in the configuration */
    const char *doc;  /* what it reads, in one clause */
    /* Borrows env. Fails with NOTSUP and the reason if the source does not exist on this
     * machine; after any other failure it may be tried again. */
    int (*open)(const struct gsp_collect_env *env, void **out, struct gsp_err *err);
    void (*read)(void *collector, const struct gsp_collect_tick *tick,
                 struct gsp_collect_sink *sink);
    size_t trouble; /* offset of its struct gsp_collect_trouble: why values are NULL */
    void (*close)(void *collector); /* NULL does nothing */
    /* Sets the processes to watch; NULL for sources without processes. */
    void (*watch)(void *collector, const int32_t *pids, size_t count);
};

/* The sources in reading order; NULL past the last. */
const struct gsp_collector_type *gsp_collect__collector_type_at(size_t i);

/* All sources that can be opened on this machine. */
struct gsp_collect; /* opaque */

GSP_MUST_CHECK int gsp_collect_open(const struct gsp_collect_env *env, struct gsp_collect **out,
                                    struct gsp_err *err);
void gsp_collect_close(struct gsp_collect *collect); /* NULL does nothing */
void gsp_collect_read(struct gsp_collect *collect, const struct gsp_collect_tick *tick,
                      struct gsp_collect_sink *sink);
void gsp_collect_watch(struct gsp_collect *collect, const int32_t *pids, size_t count);

/* For status and doctor: the state of the i-th source; false past the last. */
struct gsp_collect_state {
    const char *name;
    const char *doc;
    bool open;
    const char *trouble; /* why it is not open, or why values are missing; NULL: no problem */
};
bool gsp_collect_state(const struct gsp_collect *collect, size_t i, struct gsp_collect_state *out);
