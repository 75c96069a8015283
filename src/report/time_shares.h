/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time_shares.h -- where the time of the main threads went, and what they did while the GPU was
 * idle.
 *
 * Worker threads that wait for work would hide what the program does, so only the main threads of
 * all processes count; if no main thread is known, all threads count.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "report/document.h"

struct gsp_time_shares {
    size_t mains;    /* number of main threads, the only ones counted; 0: all threads count */
    bool has_native; /* native frames were recorded */
    /* The waiting time is known. If idle threads were not recorded, it follows from the wall time,
     * and only for a single thread. */
    bool knows_waiting;
    bool is_running_only; /* idle threads were not recorded */
    /* In the unit of the stacks. */
    double total;
    double python;
    double native;
    double waiting;
    double loading; /* below torch.utils.data */
    double worked;  /* of all threads: without startup and imports */
    /* GPU idle time; gpu_idle is NaN if unknown. */
    double gpu_idle;              /* share of the time, 0 to 1 */
    double gpu_seen;              /* samples taken while the GPUs were measured */
    double idle_total;            /* of those: while all GPUs were idle */
    double idle_top;              /* of idle_total: the largest share of one function */
    struct gsp_report_frame idle; /* that function; func is "" if there is none */
};

GSP_MUST_CHECK int gsp_report__time_shares_compute(const struct gsp_report *report,
                                                   struct gsp_time_shares *out,
                                                   struct gsp_err *err);
