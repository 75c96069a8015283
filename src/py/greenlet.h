/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greenlet.h -- the greenlets of a target: the stacks of suspended greenlets, and the threads of
 * running ones.
 *
 * greenlet keeps no list of them, so gsprof searches the objects that the garbage collector tracks,
 * and only if the module is loaded. A running greenlet is on the stack of its thread. That stack
 * ends where the greenlet began: its caller there is a suspended greenlet.
 *
 * Reads:   the collector's lists (free-threaded builds have none), greenlet objects of version 2
 *          and later.
 * Threads: the owner of the target.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "py/await.h"
#include "py/target.h"

struct gsp_py_greenlet {
    gsp_raddr addr;
    struct gsp_sv label;  /* name if it has one, class and address; valid during the call */
    struct gsp_sv parent; /* label of the greenlet that resumes when it ends; empty if unknown */
    uint64_t python_id;   /* of its thread; 0 if unknown */
    bool is_running;
    const struct gsp_py_awaits *chain; /* its frames, none while it runs; valid during the call */
};

typedef void gsp_py_greenlet_fn(void *arg, const struct gsp_py_greenlet *greenlet);

/* Calls fn for each greenlet that has started and is not done, except a thread's main greenlet
 * while it runs. Skips malformed greenlets. Calls is_enough, unless it is NULL, before it reads a
 * greenlet or an object of the collector. Fails with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_greenlets(struct gsp_py_target *target, gsp_py_greenlet_fn *fn,
                                    gsp_py_enough_fn *is_enough, void *arg);
