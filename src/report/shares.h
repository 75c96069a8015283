/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.h -- where the time of the main threads went, and what they did while the GPU idled.
 *
 * Threads that only wait for work would hide what the program does: the main threads of all
 * processes are looked at, or all threads when none is known to be one.
 *
 * Used by: verdict.c, cards.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "report/document.h"

struct gsp_shares {
    size_t mains;    /* main threads, which are looked at alone; 0: all threads are */
    bool has_native; /* native frames were recorded: the two can be told apart */
    /* It is known who waited.  A recorder that passes over threads that wait leaves it to the wall
     * clock to tell, of one thread. */
    bool knows_waiting;
    bool is_running_only; /* such a recorder it was */
    /* In the unit of the stacks. */
    double total;
    double python;
    double native;
    double waiting;
    double loading; /* below torch.utils.data */
    double worked;  /* of all threads: what is no part of starting up and importing */
    /* While no GPU had work; NaN when that is not known. */
    double gpu_idle;              /* share of the time, 0 to 1 */
    double gpu_seen;              /* samples of times at which the GPUs were looked at */
    double idle_total;            /* of those: no GPU had work */
    double idle_top;              /* those of the function that had most of them */
    struct gsp_digest_frame idle; /* that function; func "" for none */
};

GSP_MUST_CHECK int gsp_digest__shares(const struct gsp_digest *digest, struct gsp_shares *out,
                                      struct gsp_err *err);
