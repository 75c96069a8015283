/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.h -- Python objects read from a target's memory: text, dicts, locals, and a repr.
 *
 * Reads:   a target that may be running: the bytes can be stale, torn or arbitrary.
 * Gives:   bounded results; every address, length and count is checked before use.
 * Threads: no state; the owner of the struct gsp_mem.
 *
 * All functions fail with FAULT (an address is not readable), FORMAT (not the expected object),
 * NOPROC, PERM, NOMEM or IO.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"
#include "proc/mem.h"
#include "py/layout.h"

/* Appends the text of a str object as UTF-8, at most max_bytes of whole characters. A lone
 * surrogate becomes U+FFFD. */
GSP_MUST_CHECK int gsp_py__str_read(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr addr, size_t max_bytes, struct gsp_buf *out);

/* Appends tp_name of a type object, with control characters escaped. */
GSP_MUST_CHECK int gsp_py__type_name(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                     gsp_raddr type, struct gsp_buf *out);

/* Receives one item of a dict or one attribute of an instance. Returns false to end the walk. */
typedef bool gsp_py_item_fn(void *arg, gsp_raddr key, gsp_raddr value);

/* Walks a dict, of every kind that 3.8 to 3.15 have, in the order of its table. */
GSP_MUST_CHECK int gsp_py__dict_each(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                     gsp_raddr dict, gsp_py_item_fn *fn, void *arg);

/* Walks the attributes of an instance, in a dict or inline. */
GSP_MUST_CHECK int gsp_py__attr_each(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                     gsp_raddr object, gsp_py_item_fn *fn, void *arg);

/* Finds the value of a str key or attribute; *out is 0 if it does not exist. */
GSP_MUST_CHECK int gsp_py__dict_find(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                     gsp_raddr dict, const char *key, gsp_raddr *out);
GSP_MUST_CHECK int gsp_py__attr_find(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                     gsp_raddr object, const char *name, gsp_raddr *out);

/* Reads a non-negative int object of at most 64 bits. */
GSP_MUST_CHECK int gsp_py__uint_read(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                     gsp_raddr addr, uint64_t *out);

/* ident is pthread_self(), as in tstate_thread_id; name is UTF-8, valid during the call. */
typedef void gsp_py_thread_name_fn(void *arg, uint64_t ident, struct gsp_sv name);

/* Calls fn for each thread of one interpreter that the threading module has a name for; never if
 * that module is not imported. */
GSP_MUST_CHECK int gsp_py_thread_names(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                       gsp_raddr interp, gsp_py_thread_name_fn *fn, void *arg);

struct gsp_py_local {
    struct gsp_sv name; /* UTF-8, valid during the call */
    gsp_raddr value;    /* a cell's content, not the cell; never 0 */
    bool is_arg;
};

typedef void gsp_py_local_fn(void *arg, const struct gsp_py_local *local);

/* Calls fn for each bound local variable of a frame: first the arguments, then the others in slot
 * order, then cells and free variables. frame is a PyFrameObject up to 3.10 and a
 * _PyInterpreterFrame from 3.11 on; code is its code object. Module and class bodies keep their
 * variables in a dict and have none. */
GSP_MUST_CHECK int gsp_py_locals(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                 gsp_raddr frame, gsp_raddr code, gsp_py_local_fn *fn, void *arg);

/* Limits of a repr. 0 selects the default. */
struct gsp_py_repr_limits {
    size_t bytes_max;   /* of text (default: 128) */
    size_t items_max;   /* of one container (default: 16) */
    unsigned depth_max; /* of containers (default: 4) */
};

/* Appends the result of repr(), with "..." for omitted parts. Shows numbers, bool, None, str, bytes
 * and containers by value, numpy arrays and torch tensors by shape and dtype, everything else by
 * type and address. An unreadable object is shown as such and is not a failure. limits may be NULL.
 */
GSP_MUST_CHECK int gsp_py_repr(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                               gsp_raddr addr, const struct gsp_py_repr_limits *limits,
                               struct gsp_buf *out);
