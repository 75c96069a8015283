/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject.h -- loads a library into a running process and calls one of its functions there.
 *
 * One thread is stopped (PTRACE_SEIZE, PTRACE_INTERRUPT) where it cannot hold a lock of the C
 * library. It makes the calls, its registers are restored, and it continues. The other threads are
 * not stopped. If gsprof is killed during a call, the thread finishes the call and continues its
 * program by itself (sigframe.h). Other signals to gsprof wait until the call is over.
 *
 * Threads: no state between calls; one thread for a whole call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

#define GSP_INJECT_ARGS_MAX 2U

struct gsp_inject_request {
    pid_t pid;
    const char *library;                   /* an absolute path in our mount namespace */
    const char *symbol;                    /* symbol(const char *, const char *, int *value) */
    const char *args[GSP_INJECT_ARGS_MAX]; /* NULL is passed as NULL */
    int64_t limit_ns;                      /* to find a safe moment; 0: 10 s */
    bool force; /* even if an unknown seccomp filter may end the target, or a call that sends data
                   returns before all of it is sent */
};

struct gsp_inject_result {
    int value;          /* what the function stored in *value; 0 if nothing */
    pid_t tid;          /* the thread that made the call */
    int64_t stopped_ns; /* total time for which threads of the target were stopped */
    unsigned tries;     /* number of attempts */
    bool was_loaded;    /* the library was loaded already */
    bool by_memfd;      /* the target cannot open the file, so its bytes were copied */
};

/* Fails with PERM, NOPROC, NOTSUP (stopped, traced, no dlopen, seccomp), TIMEOUT (no safe
 * moment), FORMAT (the linker of the target rejected the library, with its message), FAULT (a
 * call crashed), NOFILE, NOMEM, IO. */
GSP_MUST_CHECK int gsp_inject__call(const struct gsp_inject_request *request,
                                    struct gsp_inject_result *out, struct gsp_err *err);

/* Checks whether an injection is possible, without touching the process. Fails with the same
 * errors. */
GSP_MUST_CHECK int gsp_inject__check(pid_t pid, bool force, struct gsp_err *err);
/* Returns whether a thread may make the calls: it has no seccomp filters of its own, which are not
 * those of the process. */
bool gsp_inject__check_thread(pid_t pid, pid_t tid, bool force);
