/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.h -- Python objects read from a target's memory: text, dicts, locals, and a repr.
 *
 * Reads:   a target that may be running: what is read can be stale, torn or plain garbage.
 * Gives:   bounded answers; every address, length and count is checked before it is used.
 * Used by: the code cache (names), threads (their names), `dump --locals`.
 * Threads: no state; as the struct gsp_mem allows.
 *
 * All functions here fail with FAULT (an address cannot be read), FORMAT (what is there is not
 * what was expected), NOPROC, PERM, NOMEM or IO.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proc/mem.h"
#include "py/layout.h"

/* Appends the text of a str object to out, as UTF-8, at most max_bytes of it (whole
 * characters).  A lone surrogate becomes U+FFFD. */
GSP_MUST_CHECK int gsp_py_str_read(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                   gsp_raddr addr, size_t max_bytes, struct gsp_buf *out);

/* Appends tp_name of a type object, made of printable characters. */
GSP_MUST_CHECK int gsp_py_type_name(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr type, struct gsp_buf *out);

/* One item of a dict, or one attribute of an instance.  Returning false ends the walk. */
typedef bool gsp_py_item_fn(void *arg, gsp_raddr key, gsp_raddr value);

/* Walks a dict in the order of its table, of every kind that 3.8 to 3.15 have. */
GSP_MUST_CHECK int gsp_py_dict_each(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr dict, gsp_py_item_fn *fn, void *arg);

/* Walks an instance's attributes, wherever its class keeps them. */
GSP_MUST_CHECK int gsp_py_attr_each(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr object, gsp_py_item_fn *fn, void *arg);

/* The value of a str key or attribute; *out is 0 when there is none. */
GSP_MUST_CHECK int gsp_py_dict_find(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr dict, const char *key, gsp_raddr *out);
GSP_MUST_CHECK int gsp_py_attr_find(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr object, const char *name, gsp_raddr *out);

/* A small non-negative int object: a thread's ident. */
GSP_MUST_CHECK int gsp_py_uint_read(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                    gsp_raddr addr, uint64_t *out);

/* ident is pthread_self(), as tstate_thread_id has it; name is UTF-8, good during the call. */
typedef void gsp_py_thread_name_fn(void *arg, uint64_t ident, struct gsp_sv name);

/* The names that the threading module has for the threads of one interpreter; no calls when it
 * was not imported. */
GSP_MUST_CHECK int gsp_py_thread_names(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                       gsp_raddr interp, gsp_py_thread_name_fn *fn, void *arg);

struct gsp_py_local {
    struct gsp_sv name; /* UTF-8, good during the call */
    gsp_raddr value;    /* a cell's content, not the cell; never 0: what is unbound is left out */
    bool is_arg;
};

typedef void gsp_py_local_fn(void *arg, const struct gsp_py_local *local);

/* The local variables of a frame: arguments first, then the others in order of their slots,
 * then cells and free variables.  frame is a PyFrameObject up to 3.10 and a
 * _PyInterpreterFrame from 3.11 on; code is its code object.  Module and class bodies keep
 * their variables in a dict and give none. */
GSP_MUST_CHECK int gsp_py_locals(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                                 gsp_raddr frame, gsp_raddr code, gsp_py_local_fn *fn, void *arg);

/* How much of a value is wanted.  A member that is 0 means its default. */
struct gsp_py_repr_limits {
    size_t bytes_max;   /* of text; 128 */
    size_t items_max;   /* of one container; 16 */
    unsigned depth_max; /* of containers; 4 */
};

/* Appends what repr() would give, or how it would begin ("..." where something was left out).
 * Numbers, bool, None, str, bytes and the containers are shown by value, numpy arrays and torch
 * tensors by shape and dtype, everything else by type and address.  What cannot be read is shown
 * as such and is no failure.  limits may be NULL. */
GSP_MUST_CHECK int gsp_py_repr(struct gsp_mem *mem, const struct gsp_py_layout *layout,
                               gsp_raddr addr, const struct gsp_py_repr_limits *limits,
                               struct gsp_buf *out);
