/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_internal.h -- shared by the files that read objects.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "proc/mem.h"
#include "py/layout.h"

/* The target whose objects are read; both members are borrowed. */
struct gsp_py__view {
    struct gsp_mem *mem;
    const struct gsp_py_layout *layout;
};

/* Members of the type of an object. */
struct gsp_py__type {
    gsp_raddr addr;
    int64_t basicsize;
    int64_t itemsize;
    uint64_t flags;
    int64_t dictoffset;
    gsp_raddr base;
};

/* Returns whether a failure affects all objects, not only one that is malformed. */
static inline bool gsp_py__is_fatal(int rc)
{
    return rc == GSP_E_NOPROC || rc == GSP_E_PERM || rc == GSP_E_NOMEM;
}

GSP_MUST_CHECK int gsp_py__type_read(const struct gsp_py__view *v, gsp_raddr object,
                                     struct gsp_py__type *out);

/* An int object: digits of 30 bits at long_digits, the lowest first. */
struct gsp_py__long {
    bool negative;
    uint64_t digit_count;
};

GSP_MUST_CHECK int gsp_py__long_head(const struct gsp_py__view *v, gsp_raddr addr,
                                     struct gsp_py__long *out);
