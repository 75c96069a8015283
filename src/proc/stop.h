/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.h -- holds all threads of a process still for a moment.
 *
 * PTRACE_SEIZE + PTRACE_INTERRUPT, and detach at release: nothing stays attached between two
 * stops, so signals of the target flow as ever.  Whatever kills us, the kernel detaches for
 * us and the target runs on; no SIGSTOP is ever sent.
 *
 * Threads: all calls from the thread that made the struct (ptrace is per thread).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_stop; /* opaque */

GSP_MUST_CHECK int gsp_stop_new(pid_t pid, struct gsp_stop **out, struct gsp_err *err);
void gsp_stop_free(struct gsp_stop *stop); /* releases first; NULL does nothing */

/* Stops every thread, or none: on failure all are running again.
 * Fails with TIMEOUT (a thread did not stop within limit_ns), PERM (not allowed, or traced by
 * another), NOPROC. */
GSP_MUST_CHECK int gsp_stop_hold(struct gsp_stop *stop, int64_t limit_ns, struct gsp_err *err);
/* The registers that unwinding needs. */
struct gsp_stop_regs {
    uint64_t pc;
    uint64_t sp;
    uint64_t fp;
    uint64_t lr; /* aarch64: x30; else 0 */
    /* x86-64: rbx r12 r13 r14 r15, which a function has to leave as they were; else 0 */
    uint64_t kept[5];
};

/* Stops one thread alone and tells its registers; fails as gsp_stop_hold() does. */
GSP_MUST_CHECK int gsp_stop_hold_task(struct gsp_stop *stop, pid_t tid, int64_t limit_ns,
                                      struct gsp_stop_regs *regs, struct gsp_err *err);
/* The signal that is on its way to the one thread that is held, and reaches it when it is released;
 * 0 when there is none. */
int gsp_stop_signal(const struct gsp_stop *stop);
void gsp_stop_set_signal(struct gsp_stop *stop, int signal);
/* Lets the one thread that is held run until a signal, which is kept from it and told in *signal.
 * Fails with TIMEOUT, and then holds it wherever it is; with NOPROC when it has ended, and when it
 * did not even stop at the end of the time: then nothing is held. */
GSP_MUST_CHECK int gsp_stop_run(struct gsp_stop *stop, int64_t limit_ns, int *signal,
                                struct gsp_err *err);
/* When the last of the threads that are held was still seen running: from then on, at most, it
 * stands still. */
int64_t gsp_stop_running_ns(const struct gsp_stop *stop);
void gsp_stop_release(struct gsp_stop *stop);
/* Asks the kernel for short turns on the CPU for the calling thread, which come sooner in return: a
 * thread that is held should not wait for us to get ours.  Does nothing where there is no such
 * thing (before Linux 6.12). */
void gsp_stop_be_prompt(void);
/* A thread in uninterruptible sleep cannot be released before that ends: to be called now and then
 * after a stop, so that it does not stand still afterwards.  Costs nothing when there is none. */
void gsp_stop_sweep(struct gsp_stop *stop);
