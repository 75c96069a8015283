/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_internal.h -- what target.c and threads.c share.
 *
 * Threads: one owner.
 */
#pragma once

#include "py/target.h"
#include "py/walk.h"

struct gsp_py__head {
    gsp_raddr interp;
    gsp_raddr tstate; /* head of its list of threads */
    gsp_raddr gil;    /* 3.12+: struct _gil_runtime_state; 0 when there is none */
    gsp_raddr holder; /* tstate that holds its GIL at this look; 0 none */
    /* While the lists are compared. */
    gsp_raddr now_tstate;
    gsp_raddr now_next;
    gsp_raddr now_gil;
    bool collecting; /* garbage, at this look */
};

struct gsp_py_target {
    pid_t pid;
    const struct gsp_core *core; /* NULL: a live process */
    struct gsp_mem *mem;
    struct gsp_py_runtime run;
    struct gsp_py_walker *walker;
    struct gsp_snap snap; /* of what belongs to no thread: the GIL */
    struct gsp_py_thread **threads;
    size_t thread_count;
    size_t thread_cap;
    struct gsp_py__head heads[GSP_PY_INTERPS_MAX]; /* the main interpreter first */
    size_t interp_count;
    int64_t heads_ns;     /* when the heads of the lists were last compared */
    int64_t listed_ns;    /* when the lists were last walked */
    int64_t looked_ns;    /* last look */
    int64_t gil_ns;       /* when the holders of the GIL were read */
    bool stale;           /* a thread vanished: walk the lists */
    bool listed_whole;    /* everything on the lists is known, so that they can be compared */
    gsp_raddr now_interp; /* first of the list, while the lists are compared */
    size_t tid_at;        /* offset of the kernel's id in struct pthread; 0 unknown */
    struct gsp_mem_span *spans;
    size_t span_cap;
};

/* Walks the lists of interpreters and threads anew. */
GSP_MUST_CHECK int gsp_py__threads_list(struct gsp_py_target *target, int64_t now_ns);

/* Comparing the lists costs less than walking them, above all when their bytes are read along
 * with others: plan writes the spans to read, at most span_count(); once they are read, moved
 * tells whether the lists are others than those that are known. */
size_t gsp_py__lists_span_count(const struct gsp_py_target *target);
size_t gsp_py__lists_plan(struct gsp_py_target *target, struct gsp_mem_span *spans);
bool gsp_py__lists_moved(struct gsp_py_target *target, int64_t now_ns);
void gsp_py__thread_clear(struct gsp_py_thread *thread);
