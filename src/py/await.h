/* SPDX-License-Identifier: Apache-2.0 */
/*
 * await.h -- await chains: the frame of a coroutine, of the coroutine it awaits, and so on.
 *
 * Reads:   coroutine, generator and async generator objects of a target.
 * Gives:   frames and the object at the end of the chain (usually a future).
 * Threads: the owner of the codes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "proc/mem.h"
#include "py/codes.h"

#define GSP_PY_AWAITS_MAX 256U

enum gsp_py_coro_state {
    GSP_PY_CORO_UNKNOWN, /* not a readable coroutine */
    GSP_PY_CORO_NEW,
    GSP_PY_CORO_SUSPENDED,
    GSP_PY_CORO_RUNNING,
    GSP_PY_CORO_DONE,
};

struct gsp_py_await {
    gsp_raddr frame;
    gsp_raddr code;
    uint32_t loc; /* index into the codes; GSP_PY_NO_LOC if unknown */
};

struct gsp_py_awaits {
    enum gsp_py_coro_state state; /* of the outermost coroutine */
    gsp_raddr end;                /* the object that the innermost one awaits; 0 if unknown */
    size_t depth;
    struct gsp_py_await frames[GSP_PY_AWAITS_MAX]; /* outermost first */
};

/* Whether a caller wants no more tasks or greenlets: the rest is not read. */
typedef bool gsp_py_enough_fn(void *arg);

/* Follows the chain from coro. A malformed object ends it. Fails with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py__awaits_read(struct gsp_py_codes *codes, gsp_raddr coro, int64_t now_ns,
                                       struct gsp_py_awaits *out);
