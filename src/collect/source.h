/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h -- helpers for sources: open files, reasons for missing values, rates, blank rows.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/time.h"
#include "collect/collect.h"
#include "collect/parse.h"

extern const struct gsp_collector_type gsp_collect__cpu;
extern const struct gsp_collector_type gsp_collect__memory;
extern const struct gsp_collector_type gsp_collect__disk;
extern const struct gsp_collector_type gsp_collect__network;
extern const struct gsp_collector_type gsp_collect__pressure;
extern const struct gsp_collector_type gsp_collect__process;
extern const struct gsp_collector_type gsp_collect__gpu_nvml;
extern const struct gsp_collector_type gsp_collect__gpu_amdgpu;
extern const struct gsp_collector_type gsp_collect__energy;

/* Opens a file that is read at every tick; -1 and errno on failure. */
int gsp_collect__open(const char *fmt, ...) GSP_PRINTF(1, 2);

/* Reads the whole file into *text (cleared first; its memory is reused). A kernel file has its
 * current content each time.
 * Fails with NOPROC (the process has exited), PERM, NOFILE (the device is gone, or fd is -1),
 * LIMIT, NOMEM or IO. */
GSP_MUST_CHECK int gsp_collect__read(int fd, struct gsp_buf *text);

/* Reads a file that is one number; UNKNOWN if it cannot be read or is malformed. */
uint64_t gsp_collect__read_number(int fd);

/* Reads the first line of a file, without trailing blanks; false if there is none. */
bool gsp_collect__read_line(char *out, size_t cap, const char *fmt, ...) GSP_PRINTF(3, 4);

/* Why values are missing: the first reason of a read, and the number of others. */
struct gsp_collect_trouble {
    unsigned count;
    char first[200];
    char text[240]; /* the result of gsp_collect__trouble_get() */
};
void gsp_collect__trouble_add(struct gsp_collect_trouble *trouble, const char *fmt, ...)
    GSP_PRINTF(2, 3);
/* Call it after gsp_collect__trouble_end(). NULL if there was no problem. */
const char *gsp_collect__trouble_get(const struct gsp_collect_trouble *trouble);
void gsp_collect__trouble_begin(struct gsp_collect_trouble *trouble);
void gsp_collect__trouble_end(struct gsp_collect_trouble *trouble);

/* Sets all values to NULL. */
void gsp_collect__blank(enum gsp_table_id table, void *row);

/* Seconds between two ticks; 0 at the first tick, or if the clock did not advance. */
double gsp_collect__seconds(int64_t last_mono_ns, const struct gsp_collect_tick *tick);

/* (now - last) / seconds; NULL if one is unknown, the counter was reset, or no time has passed. */
double gsp_collect__rate(uint64_t now, uint64_t last, double seconds);

static inline int64_t gsp_collect__i64(uint64_t v)
{
    return v > INT64_MAX ? GSP_NULL_I64 : (int64_t)v;
}

/* The shares of CPU time between two readings, in percent. Returns false if no time has passed. */
bool gsp_collect__cpu_shares(const struct gsp_cpu_line *now, const struct gsp_cpu_line *last,
                             double pct[GSP_CPU_TIMES]);

/* Grams of CO2 for an energy; NULL if the carbon intensity of the grid is not configured. */
double gsp_collect__carbon(const struct gsp_collect_env *env, double joules);

/* One row of energy.metrics; joules NULL: unknown for this interval. */
struct gsp_energy {
    const char *domain;
    const char *device;
    const char *source;
    double joules;
    double seconds;
};
void gsp_collect__put_energy(const struct gsp_collect_env *env, const struct gsp_collect_tick *tick,
                             const struct gsp_energy *energy, struct gsp_collect_sink *sink);
