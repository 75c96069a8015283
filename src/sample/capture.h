/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h -- one moment of a thread: registers, the top of its stack and its Python frames.
 *
 * Three methods, the least intrusive first:
 *   asleep  /proc gives the stack pointer and the program counter of a sleeping thread, and its
 *           stack is read. The thread has not run meanwhile if the kernel's count of its time
 *           slices is the same before and after.
 *   event   the kernel copies registers and stack while the thread keeps running (proc/perf.h).
 *           The Python frames are read just before and just after. The caller decides which of
 *           the two, if either, belongs to the moment.
 *   stop    the thread is stopped for about twenty microseconds (proc/stop.h). A stop disturbs the
 *           thread, so it is used only for threads without events.
 *
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

/* The thread to capture. target is NULL for a process without an interpreter; thread may then be
 * NULL too, and otherwise gives only its scheduling state. */
struct gsp_capture_thread {
    pid_t tid;
    struct gsp_py_target *target;
    struct gsp_py_thread *thread;
    bool locs_only; /* only the locs of the thread are used afterwards, not its frames */
};

struct gsp_capture_moment {
    struct gsp_native_copy copy; /* the stack is borrowed until the next capture */
    int64_t stopped_ns;          /* upper bound; 0 if the thread was not stopped */
};

/* mem is borrowed until gsp_sample__capture_close(). */
GSP_MUST_CHECK int gsp_sample__capture_open(pid_t pid, struct gsp_mem *mem,
                                            struct gsp_capture **out, struct gsp_err *err);
void gsp_sample__capture_close(struct gsp_capture *capture); /* NULL does nothing */
void gsp_sample__capture_set_policy(struct gsp_capture *capture, enum gsp_capture_policy choice);

/* The Python frames of a thread, innermost first. */
struct gsp_python_stack {
    size_t depth; /* 0: unknown */
    gsp_raddr frame;
    uint64_t instr; /* of the innermost frame (gsp_py_target_frame_instr()) */
    uint32_t locs[GSP_CAPTURE_DEPTH_MAX];
    int8_t entries[GSP_CAPTURE_DEPTH_MAX]; /* gsp_py_target_frame_entry() */
};

/* Captures a moment. Afterwards the thread's locs belong to that moment; after an event they
 * belong to the time just after it. Returns NOTSUP if this method does not work now and another
 * should be tried; TIMEOUT if the thread waits for a CPU. A stop also returns TIMEOUT, PERM,
 * NOPROC, and the errors of a walk. */
GSP_MUST_CHECK int gsp_sample__capture_moment(struct gsp_capture *capture,
                                              enum gsp_capture_method way,
                                              const struct gsp_capture_thread *subject,
                                              struct gsp_capture_moment *out, struct gsp_err *err);

/* Calls gsp_proc_stop_sweep(). */
void gsp_sample__capture_sweep(struct gsp_capture *capture);

/* Extends a copy that is too short. If the rest can be read from memory, which does not change
 * while the thread is below it, *again is false. Otherwise the next copies will be longer, and
 * *again tells the caller to capture again. Returns false if the copy cannot grow. */
bool gsp_sample__capture_extend(struct gsp_capture *capture, enum gsp_capture_method way,
                                struct gsp_capture_moment *moment, bool *again);
/* The Python frames before the last event. */
const struct gsp_python_stack *gsp_sample__capture_python_before(const struct gsp_capture *capture);
