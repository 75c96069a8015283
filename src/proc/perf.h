/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.h -- registers and stack of a thread that runs on, by an event of the kernel.
 *
 * An event of the thread's own CPU clock is armed for one overflow.  Some ten microseconds of
 * CPU time later the kernel copies the registers and the top of the stack into a ring that is
 * shared with us, and disarms the event.  The thread does not stop, and no system call of it
 * ends early.  A thread that does not run gives nothing.
 *
 * Needs:   perf_event_open(): CAP_PERFMON, or kernel.perf_event_paranoid of 2 or less.
 * Used by: sample/ for native stacks, cli/ (doctor).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/stop.h"

struct gsp_perf; /* the event of one thread; opaque */

struct gsp_perf_moment {
    struct gsp_stop_regs regs;
    const void *stack; /* from regs.sp on; borrowed until the next call */
    size_t stack_len;
};

/* stack_bytes: how much of the stack is copied, at most; the kernel has a limit of its own.
 * Fails with PERM, NOPROC, NOTSUP, LIMIT (descriptors or locked memory), NOMEM. */
GSP_MUST_CHECK int gsp_perf_open(pid_t tid, size_t stack_bytes, struct gsp_perf **out,
                                 struct gsp_err *err);
void gsp_perf_close(struct gsp_perf *perf); /* NULL does nothing */

/* A moment of the thread from now on; false when none came within limit_ns of time. */
bool gsp_perf_take(struct gsp_perf *perf, int64_t limit_ns, struct gsp_perf_moment *out);

/* Takes the word of this very thread: does it work here?  Fails as gsp_perf_open() does, and with
 * NOTSUP when the kernel's event never comes. */
GSP_MUST_CHECK int gsp_perf_selftest(struct gsp_err *err);

/* Makes sense of a record of the ring, which may be anything; the stack points into it. */
bool gsp_perf__parse(const void *record, size_t len, struct gsp_perf_moment *out);
