/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greenlet.h -- the greenlets of a target: the stacks of those that are switched out, and on
 * which thread the others run.
 *
 * Nobody has a list of them, so they are looked for among the objects that the collector tracks,
 * and only if the module is loaded.  A greenlet that runs is on the stack of its thread, which
 * ends where the greenlet began: what called it there is a greenlet that is switched out.
 *
 * Reads:   the collector's lists (free-threaded builds have none), greenlet objects of version 2
 *          and later.
 * Used by: sample/ (dump).
 * Threads: one owner, that of the target.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "py/await.h"
#include "py/target.h"

struct gsp_py_greenlet {
    gsp_raddr addr;
    struct gsp_sv label;  /* its name if it has one, its class and address; good during the call */
    struct gsp_sv parent; /* label of the one that goes on when it ends; empty: none, or unknown */
    uint64_t python_id;   /* of its thread; 0 unknown */
    bool is_running;
    const struct gsp_py_awaits *chain; /* its frames, none while it runs; good during the call */
};

typedef void gsp_py_greenlet_fn(void *arg, const struct gsp_py_greenlet *greenlet);

/* Calls fn for each greenlet that was begun and is not done, but for the main one of a thread
 * while that runs.  What makes no sense is left out.  Fails with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_greenlets(struct gsp_py_target *target, gsp_py_greenlet_fn *fn,
                                    void *arg);
