/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h -- a Python process under observation: its interpreters, threads and stacks.
 *
 * A look at the target takes, for all its threads: the kernel's state, who holds the GIL, and
 * the stacks of the threads that are wanted.  Threads that have not run since the last look
 * (the kernel's count of time slices tells) cost one small read of /proc and nothing else;
 * the memory of all others is read by one system call.
 *
 * Used by: sample/.
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
    gsp_raddr tstate;
    uint64_t python_id; /* pthread_self() */
    pid_t tid;          /* in our pid namespace; 0 when unknown */
    uint32_t interp;    /* index, 0 is the main one */
    uint32_t tag;       /* for the user; 0 at first */
    bool is_main;

    /* Of the last look. */
    char state;  /* the kernel's; 0 unknown */
    bool on_cpu; /* running or runnable; true too when the kernel's state is unknown */
    bool has_gil;
    bool in_gc;    /* collecting garbage: holds the GIL while the interpreter says so (3.9+) */
    bool wanted;   /* the stack was asked for */
    bool changed;  /* locs differ from those of the look before */
    bool cut;      /* deeper than GSP_PY_DEPTH_MAX */
    bool shadowed; /* the same kernel thread runs in another interpreter, called from here */
    /* Kept between looks. */
    bool slept;     /* asleep at the last look: slices is worth comparing */
    bool taken;     /* locs are of the same sleep */
    bool found;     /* while the list is walked */
    int status;     /* 0: locs are true; TORN, FORMAT, FAULT…: they are of an earlier look */
    unsigned wakes; /* looks running at which it had run since the one before */
    uint32_t *locs; /* innermost first */
    size_t depth;
    size_t locs_cap;
    uint64_t slices; /* times the kernel let it run, when it was last seen asleep */
    struct gsp_snap snap;
    gsp_raddr next; /* behind it in its interpreter's list */
    /* While the list is compared. */
    uint64_t now_id;
    gsp_raddr now_next;
    gsp_raddr now_interp;
    struct gsp_taskfd task;
};

struct gsp_py_target; /* opaque */

#define GSP_PY_LOOK_IDLE     1U /* stacks of threads that are not running too */
#define GSP_PY_LOOK_GIL_ONLY 2U /* only of the thread that holds the GIL */
#define GSP_PY_LOOK_STILL    4U /* the target is stopped: no retries, no proofs */
#define GSP_PY_LOOK_NO_STATE 8U /* keep the kernel states of the last look */

/* Fails with NOPROC, PERM, NOTPY, VERSION, STARTING, FORMAT, NOMEM. */
GSP_MUST_CHECK int gsp_py_target_open(pid_t pid, struct gsp_py_target **out, struct gsp_err *err);
/* The same for a child of parent, which is borrowed for the call: one that was forked from it has
 * its interpreter where the parent has it, and need not be searched. */
GSP_MUST_CHECK int gsp_py_target_open_child(pid_t pid, struct gsp_py_target *parent,
                                            struct gsp_py_target **out, struct gsp_err *err);
/* A process that is no more, as a core file has it: nothing is asked of the kernel, states are
 * unknown, and looks should be GSP_PY_LOOK_STILL.  core is borrowed until gsp_py_target_close(). */
GSP_MUST_CHECK int gsp_py_target_open_core(struct gsp_core *core, struct gsp_py_target **out,
                                           struct gsp_err *err);
void gsp_py_target_close(struct gsp_py_target *target); /* NULL does nothing */

/* 0, also if single stacks could not be had (see their status); NOPROC when the process or its
 * interpreter is gone; PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_target_look(struct gsp_py_target *target, unsigned flags, int64_t now_ns);
/* Only the kernel's states: before a stop, which would make every thread look asleep. */
void gsp_py_target_states(struct gsp_py_target *target, int64_t now_ns);

/* Walks one thread again, now; its frames' addresses are lent by gsp_py_target_frame_addr()
 * until the next look or walk.  Fails as the thread's status would say. */
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
/* Changes when all location indices became void (see codes.h). */
uint64_t gsp_py_target_epoch(const struct gsp_py_target *target);
/* The address of the i-th frame (innermost first) of the thread that was walked last; 0 past
 * the last. */
gsp_raddr gsp_py_target_frame_addr(const struct gsp_py_target *target, size_t i);
/* Where that frame stands in its code: from 3.11 on an address, before an index; 0 past the last.
 */
uint64_t gsp_py_target_frame_instr(const struct gsp_py_target *target, size_t i);
/* Did C code enter the interpreter with that frame?  1 or 0; -1 before 3.11, which does not
 * tell, and past the last. */
int gsp_py_target_frame_entry(const struct gsp_py_target *target, size_t i);
/* Does that frame live in a generator or coroutine?  false before 3.11, which does not tell. */
bool gsp_py_target_frame_in_generator(const struct gsp_py_target *target, size_t i);
