/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.h -- stops one or all threads of a process for a short time.
 *
 * Uses PTRACE_SEIZE and PTRACE_INTERRUPT, and detaches at release: nothing stays attached between
 * two stops, so signals reach the target as usual. No SIGSTOP is ever sent. If gsprof is killed,
 * the kernel detaches and the target continues.
 *
 * Threads: only the thread that created the struct may use it (ptrace is per thread).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_stop; /* opaque */

GSP_MUST_CHECK int gsp_proc_stop_new(pid_t pid, struct gsp_stop **out, struct gsp_err *err);
void gsp_proc_stop_free(struct gsp_stop *stop); /* releases first; NULL does nothing */

/* Stops every thread, or none: on failure all threads run again. Fails with TIMEOUT (a thread did
 * not stop within limit_ns), PERM (not permitted, or traced by another process), NOPROC. */
GSP_MUST_CHECK int gsp_proc_stop_hold(struct gsp_stop *stop, int64_t limit_ns, struct gsp_err *err);
/* The registers that unwinding needs. */
struct gsp_stop_regs {
    uint64_t pc;
    uint64_t sp;
    uint64_t fp;
    uint64_t lr;      /* aarch64: x30; else 0 */
    uint64_t kept[5]; /* callee-saved; x86-64: rbx r12 r13 r14 r15; else 0 */
};

/* Stops one thread and reads its registers. Fails as gsp_proc_stop_hold() does. */
GSP_MUST_CHECK int gsp_proc_stop_hold_task(struct gsp_stop *stop, pid_t tid, int64_t limit_ns,
                                           struct gsp_stop_regs *regs, struct gsp_err *err);
/* The signal at which the one stopped thread was stopped, and which it receives when it continues;
 * 0 if none. A signal that the thread blocks by then stays pending. */
int gsp_proc_stop_signal(const struct gsp_stop *stop);
/* Discards that signal. */
void gsp_proc_stop_clear_signal(struct gsp_stop *stop);
/* Runs the one stopped thread until it receives a signal, which gsp_proc_stop_signal() returns, or
 * until it enters or leaves a system call. SIGSTOP stops the other threads of the process; this one
 * continues until it is released. Fails with TIMEOUT: the thread is stopped again, wherever it is.
 * Fails with NOPROC if the thread has ended or cannot be stopped again: no thread is stopped then.
 */
GSP_MUST_CHECK int gsp_proc_stop_run(struct gsp_stop *stop, int64_t limit_ns, struct gsp_err *err);
/* Lets the one stopped thread finish its system call and stops it before it executes another
 * instruction. Fails as gsp_proc_stop_run() does. */
GSP_MUST_CHECK int gsp_proc_stop_finish_call(struct gsp_stop *stop, int64_t limit_ns,
                                             struct gsp_err *err);
/* The last time at which a thread of the current stop was seen running; all threads have been
 * stopped since then at the latest. */
int64_t gsp_proc_stop_running_ns(const struct gsp_stop *stop);
void gsp_proc_stop_release(struct gsp_stop *stop);
/* Requests short time slices for the calling thread, which the scheduler then grants sooner, so
 * that a stopped thread does not wait for this one to get a CPU. No effect before Linux 6.12. */
void gsp_proc_stop_request_short_slices(void);
/* Releases threads that could not be released at gsp_proc_stop_release() because they were in
 * uninterruptible sleep. Call it regularly after a stop, or such a thread stays stopped when it
 * wakes up. Costs nothing if there are none. */
void gsp_proc_stop_sweep(struct gsp_stop *stop);
