/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repr_internal.h -- shared by repr.c and repr_array.c.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "py/object.h"
#include "py/object_internal.h"

#define GSP_PY__DEPTH_MAX 16U

enum gsp_py__kind {
    GSP_PY__BOOL,
    GSP_PY__INT,
    GSP_PY__FLOAT,
    GSP_PY__COMPLEX,
    GSP_PY__STR,
    GSP_PY__BYTES,
    GSP_PY__LIST,
    GSP_PY__TUPLE,
    GSP_PY__DICT,
    GSP_PY__SET,
    GSP_PY__FROZENSET,
    GSP_PY__TYPE,
    GSP_PY__NONE,
    GSP_PY__ELLIPSIS,
    GSP_PY__NOT_IMPLEMENTED,
};

/* One repr being written. */
struct gsp_py__repr {
    struct gsp_py__view view;
    struct gsp_py_repr_limits limits;
    struct gsp_buf *out; /* borrowed */
    size_t start;        /* of this repr in out */
    unsigned nodes;      /* objects visited */
    unsigned depth;
    gsp_raddr open[GSP_PY__DEPTH_MAX]; /* containers being written */
};

/* Writes the shortest digits that identify the value. is_float: among floats, not doubles. */
void gsp_py__write_double(struct gsp_buf *out, double value, bool is_float);

/* Writes a numpy scalar or array or a torch tensor. Returns 1 if the object is none of them. */
GSP_MUST_CHECK int gsp_py__write_array(struct gsp_py__repr *r, gsp_raddr addr,
                                       const struct gsp_py__type *type, struct gsp_sv name);
