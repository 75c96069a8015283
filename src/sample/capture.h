/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h -- one moment of a thread: registers, the top of its stack and its Python frames.
 *
 * Three ways, the gentlest first:
 *   asleep  where it sleeps is told by /proc; its stack is read.  It has not run meanwhile if the
 *           kernel's count of its time slices is the same before and after.
 *   event   the kernel copies registers and stack while it runs on (proc/perf.h).  The Python
 *           frames are read before and after; the moment counts if they are at the same
 *           instructions both times.
 *   stop    it is stopped for some twenty microseconds (proc/stop.h).
 * Only the last disturbs the thread; it is also the only one that is always exact.
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

struct gsp_capture; /* of one process; opaque */

/* Whose stack.  target is NULL for a process that has no interpreter; thread then tells no more
 * than whether it sleeps, and may be NULL too. */
struct gsp_mixed_who {
    pid_t tid;
    struct gsp_py_target *target;
    struct gsp_py_thread *thread;
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

/* Takes a moment; the thread's locs are of it afterwards.  NOTSUP when this way does not lead to
 * one now, and another should be tried; of a stop TIMEOUT, PERM, NOPROC, and as a walk does. */
GSP_MUST_CHECK int gsp_capture_take(struct gsp_capture *capture, enum gsp_capture_way way,
                                    const struct gsp_mixed_who *who, struct gsp_moment *out,
                                    struct gsp_err *err);

/* gsp_stop_sweep() */
void gsp_capture_sweep(struct gsp_capture *capture);

/* The copy was too short: the next ones are longer.  False when they cannot be. */
bool gsp_capture_grow(struct gsp_capture *capture);
/* What a moment by event was worth: a thread that never gives a good one is not asked as often. */
void gsp_capture_judge(struct gsp_capture *capture, pid_t tid, bool good);
