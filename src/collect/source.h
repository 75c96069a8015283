/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h -- what the sources share: kept descriptors, reasons, rates, blank rows.
 *
 * Used by: the sources of this folder.
 * Threads: one owner.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
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

/* Opens a file to read at every tick; -1 and errno when it cannot be. */
int gsp_collect__open(const char *fmt, ...) GSP_PRINTF(1, 2);

/* The whole file in one read, into *text (cleared first; its memory is kept).  A file of the
 * kernel gives its present content each time.
 * Fails with NOPROC (the process is gone), PERM, NOFILE (the device is gone, or fd is -1), LIMIT,
 * NOMEM or IO. */
GSP_MUST_CHECK int gsp_collect__read(int fd, struct gsp_buf *text);

/* A file that is one number; UNKNOWN when it cannot be read or is none. */
uint64_t gsp_collect__read_number(int fd);

/* A file that is looked at once: its first line, without blanks at its end; false without. */
bool gsp_collect__read_line(char *out, size_t cap, const char *fmt, ...) GSP_PRINTF(3, 4);

/* Why values are missing: the first reason of a read, and how many others there are. */
struct gsp_trouble {
    unsigned count;
    char first[200];
    char text[240]; /* what gsp_collect__trouble_get() gives */
};
void gsp_collect__trouble_add(struct gsp_trouble *trouble, const char *fmt, ...) GSP_PRINTF(2, 3);
/* Called at the end of a read; NULL when there was none. */
const char *gsp_collect__trouble_get(const struct gsp_trouble *trouble);
void gsp_collect__trouble_begin(struct gsp_trouble *trouble);
void gsp_collect__trouble_end(struct gsp_trouble *trouble);

/* All values NULL. */
void gsp_collect__blank(enum gsp_table_id table, void *row);

/* Seconds between two ticks; 0 when there was none before, or the clock did not move. */
double gsp_collect__seconds(int64_t last_mono_ns, const struct gsp_tick *tick);

/* (now - last) / seconds; NULL when one is unknown, the counter began anew, or no time passed. */
double gsp_collect__rate(uint64_t now, uint64_t last, double seconds);

static inline int64_t gsp_collect__i64(uint64_t v)
{
    return v > INT64_MAX ? GSP_NULL_I64 : (int64_t)v;
}

/* For the total row of cpu and the estimate of energy: busy parts of all time between two
 * readings, in percent.  False when no time passed. */
bool gsp_collect__cpu_shares(const struct gsp_cpu_line *now, const struct gsp_cpu_line *last,
                             double pct[GSP_CPU_TIMES]);

/* Grams of CO2 for an energy; NULL when the grid's intensity is not stated. */
double gsp_collect__carbon(const struct gsp_collect_env *env, double joules);

/* One row of energy.metrics; joules NULL: not known for this interval. */
struct gsp_energy {
    const char *domain;
    const char *device;
    const char *source;
    double joules;
    double seconds;
};
void gsp_collect__put_energy(const struct gsp_collect_env *env, const struct gsp_tick *tick,
                             const struct gsp_energy *energy, struct gsp_sink *sink);
