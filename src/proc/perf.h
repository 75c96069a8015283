/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.h -- captures registers and stack of a running thread with a perf event.
 *
 * An event on the thread's CPU clock is armed for one overflow. About ten microseconds of CPU time
 * later the kernel copies the registers and the top of the stack into a shared buffer and disarms
 * the event. The thread does not stop, and none of its system calls is interrupted. A thread that
 * does not run yields nothing.
 *
 * Needs:   perf_event_open(): CAP_PERFMON, or kernel.perf_event_paranoid of 2 or less.
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

struct gsp_perf_sample {
    struct gsp_stop_regs regs;
    const void *stack; /* from regs.sp on; borrowed until the next call */
    size_t stack_len;
};

/* stack_bytes: maximum size of the copied stack; the kernel may copy less. Fails with PERM, NOPROC,
 * NOTSUP, LIMIT (descriptors or locked memory), NOMEM. */
GSP_MUST_CHECK int gsp_proc_perf_open(pid_t tid, size_t stack_bytes, struct gsp_perf **out,
                                      struct gsp_err *err);
void gsp_proc_perf_close(struct gsp_perf *perf); /* NULL does nothing */

/* Captures the thread once. Returns false if no event arrived within limit_ns. */
bool gsp_proc_perf_capture(struct gsp_perf *perf, int64_t limit_ns, struct gsp_perf_sample *out);

/* Captures the calling thread to check that perf events work here. Fails as gsp_proc_perf_open()
 * does, and with NOTSUP if no event arrives. */
GSP_MUST_CHECK int gsp_proc_perf_selftest(struct gsp_err *err);

/* Parses an untrusted record of the buffer. out->stack points into the record. */
bool gsp_proc__perf_parse(const void *record, size_t len, struct gsp_perf_sample *out);
