/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_internal.h -- what object.c, locals.c and repr.c share.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "proc/mem.h"
#include "py/layout.h"

/* A target as its objects are read: both borrowed. */
struct gsp_py__view {
    struct gsp_mem *mem;
    const struct gsp_py_layout *layout;
};

/* What is asked of the type of an object. */
struct gsp_py__type {
    gsp_raddr addr;
    int64_t basicsize;
    int64_t itemsize;
    uint64_t flags;
    int64_t dictoffset;
    gsp_raddr base;
};

GSP_MUST_CHECK int gsp_py__type_read(const struct gsp_py__view *v, gsp_raddr object,
                                     struct gsp_py__type *out);

/* An int: digits of 30 bits at long_digits, the lowest first. */
struct gsp_py__long {
    bool negative;
    uint64_t digit_count;
};

GSP_MUST_CHECK int gsp_py__long_head(const struct gsp_py__view *v, gsp_raddr addr,
                                     struct gsp_py__long *out);
