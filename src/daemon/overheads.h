/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overheads.h -- the overhead of tracing in the processes of this machine, measured by their
 * agents.
 *
 * Reads:   the newest gsprof.overhead row of each running process and source.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

#define GSP_OVERHEADS_MAX 64U

struct gsp_overhead {
    int64_t ts_ns;
    double percent; /* of the time of the process; gsp_null_f64(): not enough steps yet */
    double low_percent;
    double high_percent;
    int64_t samples;
    int32_t pid;
    char source[20];
};

/* Reads at most cap overheads of running processes: those of this user or, with all_users, of all
 * users. Returns their number. */
size_t gsp_daemon__overheads_read(bool all_users, struct gsp_overhead *out, size_t cap);
/* An array of objects. */
void gsp_daemon__overheads_json(const struct gsp_overhead *overheads, size_t count,
                                struct gsp_json *json);
