/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h -- one moment of a thread: registers, the top of its stack and its Python frames.
 *
 * Three ways, the gentlest first:
 *   asleep  where it sleeps is told by /proc; its stack is read.  It has not run meanwhile if the
 *           kernel's count of its time slices is the same before and after.
 *   event   the kernel copies registers and stack while it runs on (proc/perf.h).  The Python
 *           frames are read just before and just after; which of the two, if any, are of the moment
 *           is for the caller to find out.
 *   stop    it is stopped for some twenty microseconds (proc/stop.h).  Only for threads that have
 * no events: it disturbs them.
 *
 * Used by: sample/mixed.c alone.
 * Threads: one owner; all calls from one thread (ptrace is per thread).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "native/unwind.h"
#include "proc/mem.h"
#include "py/target.h"
#include "sample/native_stats.h"

#define GSP_CAPTURE_DEPTH_MAX 1024U

struct gsp_capture; /* of one process; opaque */

/* Whose stack.  target is NULL for a process that has no interpreter; thread then tells no more
 * than whether it sleeps, and may be NULL too. */
struct gsp_mixed_who {
    pid_t tid;
    struct gsp_py_target *target;
    struct gsp_py_thread *thread;
    bool locs_only; /* the thread's locs are wanted, its frames are not looked at afterwards */
};

struct gsp_moment {
    struct gsp_native_copy copy; /* its stack is borrowed until the next one */
    int64_t stopped_ns;          /* at most; 0 when the thread was not stopped */
};

/* mem is borrowed until gsp_capture_close(). */
GSP_MUST_CHECK int gsp_capture_open(pid_t pid, struct gsp_mem *mem, struct gsp_capture **out,
                                    struct gsp_err *err);
void gsp_capture_close(struct gsp_capture *capture); /* NULL does nothing */
void gsp_capture_choose(struct gsp_capture *capture, enum gsp_capture_choice choice);

/* The Python frames of a thread, innermost first. */
struct gsp_python_stack {
    size_t depth; /* 0: unknown */
    gsp_raddr frame;
    uint64_t instr; /* the innermost one stands there (gsp_py_target_frame_instr()) */
    uint32_t locs[GSP_CAPTURE_DEPTH_MAX];
    int8_t entries[GSP_CAPTURE_DEPTH_MAX]; /* gsp_py_target_frame_entry() */
};

/* Takes a moment; the thread's locs are of it afterwards, those of an event of just after it.
 * NOTSUP when this way does not lead to one now, and another should be tried; TIMEOUT when the
 * thread waits for a CPU; of a stop TIMEOUT, PERM, NOPROC, and as a walk does. */
GSP_MUST_CHECK int gsp_capture_take(struct gsp_capture *capture, enum gsp_capture_way way,
                                    const struct gsp_mixed_who *who, struct gsp_moment *out,
                                    struct gsp_err *err);

/* gsp_stop_sweep() */
void gsp_capture_sweep(struct gsp_capture *capture);

/* The copy was too short: a longer one if what follows can be read from memory, which does not
 * change as long as the thread is below; else the next copies are longer.  *again: it has to be
 * taken again. False when there is no more. */
bool gsp_capture_extend(struct gsp_capture *capture, enum gsp_capture_way way,
                        struct gsp_moment *moment, bool *again);
/* The Python frames before the last event. */
const struct gsp_python_stack *gsp_capture_before(const struct gsp_capture *capture);
