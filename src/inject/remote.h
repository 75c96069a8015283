/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h -- functions called in a thread of another process while it is held.
 *
 * Everything the thread had is kept before the first call and put back at the end: registers,
 * vector registers, blocked signals.  Between two calls the thread stands still.
 *
 * Threads: the one that made the struct gsp_stop.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "inject/machine.h"
#include "inject/state.h"
#include "proc/stop.h"

#define GSP_REMOTE_SCRATCH 16384U /* for strings, below the thread's stack */

struct gsp_inject__remote {
    struct gsp_stop *stop; /* holds tid; borrowed */
    pid_t pid;
    pid_t tid;
    gsp_raddr scratch; /* GSP_REMOTE_SCRATCH bytes in the target */
    size_t used;       /* of these */
    int later;         /* a signal that came meanwhile and is to be delivered at the end */
    bool is_open;
    bool failed; /* a call crashed or was given up: nothing more is called */
    struct gsp_inject__machine kept;
};

/* Keeps what the held thread has; to be closed also on failure.  at is the call it waits in; number
 * -1 when it runs. Fails with TORN (it is not where it was thought to be), NOPROC, LIMIT (no room
 * on its stack). */
GSP_MUST_CHECK int gsp_inject__remote_open(struct gsp_inject__remote *remote,
                                           const struct gsp_inject_call_at *at,
                                           struct gsp_err *err);
/* Puts all back; the thread is still held.  NOPROC when it is gone. */
int gsp_inject__remote_close(struct gsp_inject__remote *remote, struct gsp_err *err);

/* Copies a string to the target; NULL becomes 0.  Fails with LIMIT, FAULT. */
GSP_MUST_CHECK int gsp_inject__remote_string(struct gsp_inject__remote *remote, const char *text,
                                             gsp_raddr *out, struct gsp_err *err);
/* Calls a function.  Fails with TIMEOUT, FAULT (it crashed), NOPROC. */
GSP_MUST_CHECK int gsp_inject__remote_call(struct gsp_inject__remote *remote, gsp_raddr function,
                                           const uint64_t args[GSP_MACHINE_ARGS], int64_t limit_ns,
                                           uint64_t *value, struct gsp_err *err);
