/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greenlet.h -- the greenlets of a target that are switched out, and their stacks.
 *
 * Nobody has a list of them, so they are looked for among the objects that the collector tracks,
 * and only if the module is loaded.  A greenlet that runs is on the stack of its thread.
 *
 * Reads:   the collector's lists of 3.9 to 3.13, greenlet objects of version 2 and later.
 * Used by: sample/ (dump).
 * Threads: one owner, that of the target.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "py/await.h"
#include "py/target.h"

struct gsp_py_greenlet {
    gsp_raddr addr;
    struct gsp_sv type;                /* name of its class; good during the call */
    const struct gsp_py_awaits *chain; /* its frames; good during the call */
};

typedef void gsp_py_greenlet_fn(void *arg, const struct gsp_py_greenlet *greenlet);

/* Calls fn for each greenlet that was begun, is not done and does not run now.  What makes no
 * sense is left out.  Fails with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_greenlets(struct gsp_py_target *target, gsp_py_greenlet_fn *fn,
                                    void *arg);
