/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject.h -- loads a library into a running process and calls one of its functions there.
 *
 * One thread is stopped (PTRACE_SEIZE, PTRACE_INTERRUPT) where it can hold no lock of the C
 * library; it makes the calls, gets back all it had, and runs on.  The others are not stopped.
 * Should this program be killed by SIGKILL in the middle of a call, the target is not left
 * stopped, but the call returns to nowhere and the target ends by SIGSEGV: that window is the
 * duration of dlopen(), some tenths of a millisecond.  All other signals wait until it is over.
 *
 * Used by: cli/ (inject, eject, eval).
 * Threads: no state between calls; one thread from beginning to end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

#define GSP_INJECT_ARGS_MAX 4U

struct gsp_inject_request {
    pid_t pid;
    const char *library;                   /* an absolute path, as we see it */
    const char *symbol;                    /* int symbol(const char *, ...) */
    const char *args[GSP_INJECT_ARGS_MAX]; /* NULL is passed as NULL */
    int64_t limit_ns;                      /* for finding a moment; 0: a usual one */
    bool force; /* although a seccomp filter of unknown content may end the target */
};

struct gsp_inject_result {
    int value;          /* what the function returned */
    pid_t tid;          /* the thread it was called in */
    int64_t stopped_ns; /* how long threads of the target did not do their own work, in sum */
    unsigned tries;     /* moments that were looked at */
    bool was_loaded;    /* the library was there already */
    bool by_memfd;      /* the target does not see the file, so its bytes were handed over */
};

/* Fails with PERM, NOPROC, NOTSUP (stopped, traced, no dlopen, seccomp), TIMEOUT (no safe moment),
 * FORMAT (the target's linker refused the library; the message is the linker's), FAULT (a call
 * crashed), NOFILE, NOMEM, IO. */
GSP_MUST_CHECK int gsp_inject_call(const struct gsp_inject_request *request,
                                   struct gsp_inject_result *out, struct gsp_err *err);

/* Whether anything speaks against it, as far as can be told without touching the process.
 * The same failures. */
GSP_MUST_CHECK int gsp_inject_check(pid_t pid, bool force, struct gsp_err *err);
