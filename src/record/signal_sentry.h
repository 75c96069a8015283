/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal_sentry.h -- a child process in our process group that blocks all signals and counts them.
 *
 * The kernel does not report whether a signal was sent to gsprof alone or to the whole group; in
 * the second case the program already has it. A signal that the sentry has received, too, was sent
 * to the group. The sentry also continues gsprof when the program is continued while gsprof is
 * stopped, because a SIGCONT may have been sent to the program alone.
 *
 * The sentry has none of our descriptors and dies with gsprof. Its command line includes that of
 * the program, so that `pkill -f TEXT` finds it together with gsprof and the program.
 *
 * Threads: one owner, which starts and stops it; any thread may call
 * gsp_record__signal_sentry_query().
 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/lock.h"

/* Signals are numbered from 1. */
#define GSP_SIGNAL_COUNT ((size_t)_NSIG)

struct gsp_signal_sentry {
    pid_t pid;                    /* 0: none */
    int fd;                       /* socket to it; -1 */
    uint32_t asked;               /* number of queries */
    _Atomic uint32_t left_behind; /* number of pending SIGCONT that continued gsprof but not it */
    atomic_bool lost;             /* it does not answer */
    struct gsp_lock lock;         /* held during a query */
};

#define GSP_SIGNAL_SENTRY_NONE                                                                     \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Signals received since the start, by number. */
struct gsp_signal_counts {
    uint32_t of[GSP_SIGNAL_COUNT];
};

/* Starts a sentry; *sentry is GSP_SIGNAL_SENTRY_NONE. Our signals must be blocked, and the process
 * must have one thread. argv is our whole command line, words the program's part of it; both are
 * NULL-ended. Fails with IO. */
GSP_MUST_CHECK int gsp_record__signal_sentry_start(struct gsp_signal_sentry *sentry,
                                                   char *const *argv, char *const *words,
                                                   struct gsp_err *err);
/* Reads the counts; returns false if the sentry is not running or does not answer. */
bool gsp_record__signal_sentry_query(struct gsp_signal_sentry *sentry,
                                     struct gsp_signal_counts *out);
/* To be called before gsprof stops because pid is stopped: the sentry sends SIGCONT to gsprof
 * repeatedly once pid is continued or has exited. */
void gsp_record__signal_sentry_watch(struct gsp_signal_sentry *sentry, pid_t pid);
/* To be called when gsprof runs again. */
void gsp_record__signal_sentry_unwatch(struct gsp_signal_sentry *sentry);
/* Ends the sentry and waits for its exit; GSP_SIGNAL_SENTRY_NONE does nothing. */
void gsp_record__signal_sentry_end(struct gsp_signal_sentry *sentry);

/* Whether a process is stopped; false if that cannot be read, so that no caller sleeps forever. */
bool gsp_record__process_is_stopped(pid_t pid);
/* Whether a SIGSTOP was sent to the group: the sentry is stopped, or it or gsprof is about to stop.
 */
bool gsp_record__group_is_stopping(const struct gsp_signal_sentry *sentry);
