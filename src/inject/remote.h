/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h -- calls functions in a stopped thread of another process.
 *
 * A call returns through a signal frame (sigframe.h), so the thread continues its program even if
 * gsprof is killed. If gsprof lives, it catches the thread at the end of the call, makes further
 * calls, and finally restores the registers itself, which also continues an interrupted sleep.
 *
 * Threads: the one that made the struct gsp_stop.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "inject/registers.h"
#include "inject/sigframe.h"
#include "inject/state.h"
#include "proc/stop.h"

#define GSP_REMOTE_SCRATCH 16384U /* for strings, below the thread's stack */

struct gsp_inject__remote {
    struct gsp_stop *stop; /* has stopped tid; borrowed */
    struct gsp_mem *mem;   /* of the target; borrowed */
    struct gsp_inject__landing landing;
    pid_t pid;
    pid_t tid;
    gsp_raddr scratch; /* GSP_REMOTE_SCRATCH bytes in the target */
    size_t used;       /* bytes used in scratch */
    bool is_open;
    bool is_borrowed;              /* a call has been set up */
    bool failed;                   /* a call crashed or timed out: no more calls */
    bool is_left;                  /* the thread is still in the call, and returns by itself */
    bool is_repeated;              /* kept repeats the system call that the stop has ended */
    struct user_regs_struct ended; /* as the stop left them */
    struct gsp_inject__registers kept;
    struct gsp_inject__sigframe frame;
};

/* What a call leaves. */
struct gsp_inject__value {
    uint64_t value;  /* of the function */
    bool is_known;   /* not if the target has no code that stores it (see linker.h) */
    uint64_t result; /* of the last system call */
};

/* Saves the state of the stopped thread; must be closed even after a failure. at is the system
 * call in which it waits; number -1 if it runs. Fails with TORN (it is somewhere else, or in a
 * restartable sequence), NOPROC, NOTSUP (it has a shadow stack). */
GSP_MUST_CHECK int gsp_inject__remote_open(struct gsp_inject__remote *remote,
                                           const struct gsp_inject_call_at *at,
                                           struct gsp_err *err);
/* Restores the thread, which stays stopped. A thread that is still in a call stays in it. Fails
 * with NOPROC if it has exited. */
int gsp_inject__remote_close(struct gsp_inject__remote *remote, struct gsp_err *err);

/* Copies a string to the target; NULL becomes 0. Fails with LIMIT, FAULT. */
GSP_MUST_CHECK int gsp_inject__remote_string(struct gsp_inject__remote *remote, const char *text,
                                             gsp_raddr *out, struct gsp_err *err);
/* Reserves a word in the target, which is 0. Fails with LIMIT, FAULT. */
GSP_MUST_CHECK int gsp_inject__remote_word(struct gsp_inject__remote *remote, gsp_raddr *out,
                                           struct gsp_err *err);
/* Calls a function. Fails with TIMEOUT, FAULT (it crashed), NOPROC. */
GSP_MUST_CHECK int gsp_inject__remote_call(struct gsp_inject__remote *remote, gsp_raddr function,
                                           const uint64_t args[GSP_INJECT_CALL_ARGS],
                                           int64_t limit_ns, struct gsp_inject__value *out,
                                           struct gsp_err *err);
