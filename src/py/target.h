/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h -- a Python process being profiled: its interpreters, threads and stacks.
 *
 * A sampling pass reads, for all threads of the target, the kernel's state, the holder of the GIL,
 * and the stacks of the selected threads. A thread that has not run since the last pass (according
 * to the kernel's count of time slices) costs only one small read of /proc. One system call reads
 * the memory of all others.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/core.h"
#include "proc/mem.h"
#include "proc/snap.h"
#include "proc/task.h"
#include "py/codes.h"
#include "py/locate.h"

#define GSP_PY_THREADS_MAX 4096U
#define GSP_PY_INTERPS_MAX 256U

struct gsp_py_thread {
    /* Identity: constant while the thread exists. */
    gsp_raddr tstate;
    uint64_t python_id; /* pthread_self() */
    pid_t tid;          /* in our pid namespace; 0 if unknown */
    uint32_t interp;    /* index; 0 is the main interpreter */
    uint32_t tag;       /* for the caller; initially 0 */
    bool is_main;

    /* Result of the last sampling pass. */
    char state;  /* the kernel's; 0 if unknown */
    bool on_cpu; /* running or runnable; also true if the kernel's state is unknown */
    bool has_gil;
    bool in_gc;     /* holds the GIL during a garbage collection (3.9+) */
    bool selected;  /* the pass had to read the stack */
    bool changed;   /* locs differ from those of the previous pass */
    bool cut;       /* deeper than GSP_PY_DEPTH_MAX */
    bool shadowed;  /* the same kernel thread has entered another interpreter from here */
    bool found;     /* while the thread lists are walked: still in a list */
    int status;     /* 0: locs are valid; TORN, FORMAT, FAULT…: they are from an earlier pass */
    uint32_t *locs; /* innermost first */
    size_t depth;

    /* Resources and history: kept from pass to pass. */
    size_t locs_cap;
    struct {
        bool is_current; /* asleep at the last pass: slices can be compared */
        bool is_sampled; /* locs are from the current sleep */
        unsigned wakes;  /* consecutive passes before each of which the thread had run */
        uint64_t slices; /* gsp_proc_taskfd_slices() when it was last seen sleeping */
    } sleep;
    struct gsp_snap snap;
    struct gsp_taskfd task;

    /* Links of the target's thread list: as last walked, and as read for a comparison. */
    struct {
        gsp_raddr next;
        uint64_t now_id;
        gsp_raddr now_next;
        gsp_raddr now_interp;
    } list;
};

struct gsp_py_target; /* opaque */

#define GSP_PY_SAMPLE_IDLE        1U /* also sample idle threads */
#define GSP_PY_SAMPLE_GIL_ONLY    2U /* sample only the thread that holds the GIL */
#define GSP_PY_SAMPLE_STOPPED     4U /* the target is stopped: no retries, no verification */
#define GSP_PY_SAMPLE_KEEP_STATES 8U /* keep the kernel states of the last pass */

/* Fails with NOPROC, PERM, NOTPY, VERSION, STARTING, FORMAT, NOMEM. */
GSP_MUST_CHECK int gsp_py_target_open(pid_t pid, struct gsp_py_target **out, struct gsp_err *err);
/* The same for a child of parent, which is borrowed for the call. A forked child has its
 * interpreter at the same address as its parent and is not searched. */
GSP_MUST_CHECK int gsp_py_target_open_child(pid_t pid, struct gsp_py_target *parent,
                                            struct gsp_py_target **out, struct gsp_err *err);
/* Opens the process of a core file. The states of its threads are unknown; passes should use
 * GSP_PY_SAMPLE_STOPPED. core is borrowed until gsp_py_target_close(). */
GSP_MUST_CHECK int gsp_py_target_open_core(struct gsp_core *core, struct gsp_py_target **out,
                                           struct gsp_err *err);
void gsp_py_target_close(struct gsp_py_target *target); /* NULL does nothing */

/* Makes one sampling pass. Returns 0 even if single stacks are not available (see their status).
 * Fails with NOPROC if the process or its interpreter has ended; PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_target_sample(struct gsp_py_target *target, unsigned flags,
                                        int64_t now_ns);
/* Updates only the kernel's states. Call it before a stop: all stopped threads look idle. */
void gsp_py_target_update_states(struct gsp_py_target *target, int64_t now_ns);

/* Samples one thread again. Fails with the thread's status. The functions
 * gsp_py_target_frame_…() refer to this stack until the next pass or walk. */
GSP_MUST_CHECK int gsp_py_target_walk(struct gsp_py_target *target, struct gsp_py_thread *thread,
                                      unsigned flags, int64_t now_ns);

size_t gsp_py_target_thread_count(const struct gsp_py_target *target);
struct gsp_py_thread *gsp_py_target_thread(struct gsp_py_target *target, size_t i);

pid_t gsp_py_target_pid(const struct gsp_py_target *target);
struct gsp_mem *gsp_py_target_mem(struct gsp_py_target *target);
const struct gsp_py_runtime *gsp_py_target_runtime(const struct gsp_py_target *target);
struct gsp_py_codes *gsp_py_target_codes(struct gsp_py_target *target);
/* Address of the i-th PyInterpreterState, 0 past the last. */
gsp_raddr gsp_py_target_interp(const struct gsp_py_target *target, size_t i);
/* Changes whenever all location indices become invalid (see codes.h). */
uint64_t gsp_py_target_epoch(const struct gsp_py_target *target);
/* The address of the i-th frame (innermost first) of the thread that was walked last; 0 past the
 * last. */
gsp_raddr gsp_py_target_frame_addr(const struct gsp_py_target *target, size_t i);
/* The instruction of that frame: from 3.11 on an address, before an index; 0 past the last. */
uint64_t gsp_py_target_frame_instr(const struct gsp_py_target *target, size_t i);
/* Returns 1 if C code entered the interpreter with that frame, else 0; -1 if unknown (before 3.11)
 * and past the last. */
int gsp_py_target_frame_entry(const struct gsp_py_target *target, size_t i);
/* Returns whether that frame belongs to a generator or coroutine; false if unknown (before 3.11).
 */
bool gsp_py_target_frame_in_generator(const struct gsp_py_target *target, size_t i);
