/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overheads.h -- what tracing costs the processes of this machine, as their agents measured it.
 *
 * Reads:   the newest row of gsprof.overhead of each process that runs, for each source.
 * Used by: daemon_tick.c (looks), routes_status.c (tells).
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

#define GSP_OVERHEADS_MAX 64U

struct gsp_overhead {
    int64_t ts_ns;
    double percent; /* of the process's time; NULL as wire/table.h has it: not enough steps yet */
    double low_percent;
    double high_percent;
    int64_t samples;
    int32_t pid;
    char source[20];
};

/* Those of processes that run, at most cap; how many. */
size_t gsp_overheads_read(struct gsp_overhead *out, size_t cap);
/* An array of objects. */
void gsp_overheads_json(const struct gsp_overhead *overheads, size_t count, struct gsp_json *json);
