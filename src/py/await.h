/* SPDX-License-Identifier: Apache-2.0 */
/*
 * await.h -- where a coroutine stands: its frame, that of the coroutine it awaits, and so on.
 *
 * Reads:   coroutine, generator and async generator objects of a target.
 * Gives:   frames and the object at the end of the chain (a future, as a rule).
 * Used by: py/async.c.
 * Threads: one owner, that of the codes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/mem.h"
#include "py/codes.h"

#define GSP_PY_AWAITS_MAX 256U

enum gsp_py_coro_state {
    GSP_PY_CORO_UNKNOWN, /* no coroutine that we can read */
    GSP_PY_CORO_NEW,
    GSP_PY_CORO_SUSPENDED,
    GSP_PY_CORO_RUNNING,
    GSP_PY_CORO_DONE,
};

struct gsp_py_await {
    gsp_raddr frame;
    gsp_raddr code;
    uint32_t loc; /* index into the codes; GSP_PY_NO_LOC when unknown */
};

struct gsp_py_awaits {
    enum gsp_py_coro_state state; /* of the outermost */
    gsp_raddr end;                /* what the innermost awaits, no coroutine; 0 unknown */
    size_t depth;
    struct gsp_py_await frames[GSP_PY_AWAITS_MAX]; /* outermost first */
};

/* Follows the chain from coro.  What makes no sense ends it.  Fails with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_awaits_read(struct gsp_py_codes *codes, gsp_raddr coro, int64_t now_ns,
                                      struct gsp_py_awaits *out);
