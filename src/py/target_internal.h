/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_internal.h -- shared by target.c and threads.c.
 *
 * Threads: one owner.
 */
#pragma once

#include "py/target.h"
#include "py/walk.h"

/* One interpreter. */
struct gsp_py__interp {
    gsp_raddr interp;
    gsp_raddr tstate; /* head of its thread list */
    gsp_raddr gil;    /* 3.12+: struct _gil_runtime_state; 0 if none */
    gsp_raddr holder; /* tstate that holds its GIL in this pass; 0: none */
    /* As read for a comparison of the lists. */
    gsp_raddr now_tstate;
    gsp_raddr now_next;
    gsp_raddr now_gil;
    bool collecting; /* a garbage collection runs in this pass */
};

struct gsp_py_target {
    pid_t pid;
    const struct gsp_core *core; /* NULL: a live process */
    struct gsp_mem *mem;
    struct gsp_py_runtime run;
    struct gsp_py_walker *walker;
    struct gsp_snap snap; /* of data that belongs to no thread: the GIL */
    struct gsp_py_thread **threads;
    size_t thread_count;
    size_t thread_cap;
    struct gsp_py__interp heads[GSP_PY_INTERPS_MAX]; /* the main interpreter first */
    size_t interp_count;
    int64_t heads_ns;     /* last comparison of the list heads */
    int64_t listed_ns;    /* last walk of the lists */
    int64_t sampled_ns;   /* last sampling pass */
    int64_t gil_ns;       /* last read of the holders of the GIL */
    bool stale;           /* a thread has ended: walk the lists */
    bool listed_whole;    /* every list entry is known, so the lists can be compared */
    gsp_raddr now_interp; /* first interpreter, as read for a comparison of the lists */
    size_t tid_at;        /* offset of the kernel's thread id in struct pthread; 0 if unknown */
    struct gsp_mem_span *spans;
    size_t span_cap;
};

/* Opens a target whose runtime is known, without a process: for tests. Takes ownership of mem, also
 * on failure. Fails as gsp_py_target_open() does. */
GSP_MUST_CHECK int gsp_py__target_open_located(struct gsp_mem *mem,
                                               const struct gsp_py_runtime *runtime,
                                               struct gsp_py_target **out, struct gsp_err *err);

/* Walks the lists of interpreters and threads again. */
GSP_MUST_CHECK int gsp_py__threads_list(struct gsp_py_target *target, int64_t now_ns);

/* A comparison of the lists costs less than a walk, in particular if its reads are part of another
 * system call. lists_plan() writes the spans to read, at most lists_span_count(); after they are
 * read, lists_moved() returns whether the lists have changed since the last walk. */
size_t gsp_py__lists_span_count(const struct gsp_py_target *target);
size_t gsp_py__lists_plan(struct gsp_py_target *target, struct gsp_mem_span *spans);
bool gsp_py__lists_have_changed(struct gsp_py_target *target, int64_t now_ns);
void gsp_py__thread_clear(struct gsp_py_thread *thread);
