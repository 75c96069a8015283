/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sentry.h -- a process in our group that takes no signal, only counts them.
 *
 * The kernel does not say whether a signal was sent to us alone or to the whole group, in which
 * case the program has it already.  What the sentry has received too was sent to the group.  The
 * sentry also wakes us when the program goes on while we are stopped, because a SIGCONT may have
 * been sent to the program alone.
 *
 * It has none of our descriptors, dies with us, and is named after the program, so that
 * `pkill -f WORD` finds it beside us and the program.
 *
 * Used by: run_signals.c.
 * Threads: one owner, who starts and stops it; any may ask.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* Signals are numbered from 1. */
#define GSP_SENTRY_SIGNALS ((size_t)_NSIG)

struct gsp_sentry {
    pid_t pid;                    /* 0: there is none */
    int fd;                       /* to talk to it; -1 */
    uint32_t asked;               /* so often */
    _Atomic uint32_t left_behind; /* so often a pending SIGCONT had woken us and not the sentry */
    atomic_bool lost;             /* it does not answer any more */
    pthread_mutex_t lock;         /* of the thread that asks */
};

#define GSP_SENTRY_NONE                                                                            \
    {                                                                                              \
        .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER                                                \
    }

/* What it has received since it was started, by signal. */
struct gsp_sentry_counts {
    uint32_t of[GSP_SENTRY_SIGNALS];
};

/* Starts one, where there is GSP_SENTRY_NONE; our own signals are blocked already, and there is one
 * thread.  argv is our whole command line and words the program's part of it, both NULL-ended.
 * Fails with IO. */
GSP_MUST_CHECK int gsp_sentry_start(struct gsp_sentry *sentry, char *const *argv,
                                    char *const *words, struct gsp_err *err);
/* Gives what it has received up to now; false when there is no sentry, or no answer. */
bool gsp_sentry_ask(struct gsp_sentry *sentry, struct gsp_sentry_counts *out);
/* We are about to stop because pid is stopped: from now on SIGCONT is sent to us, again and again,
 * once pid goes on or has ended. */
void gsp_sentry_watch(struct gsp_sentry *sentry, pid_t pid);
/* We are awake. */
void gsp_sentry_awake(struct gsp_sentry *sentry);
/* Ends it and waits for that; GSP_SENTRY_NONE does nothing. */
void gsp_sentry_stop(struct gsp_sentry *sentry);

/* Whether a process is stopped; false when that cannot be read, so that no caller sleeps for ever.
 */
bool gsp_sentry_is_stopped(pid_t pid);
/* Whether a SIGSTOP was sent to the group: the sentry stands still, or it or we are about to. */
bool gsp_sentry_stops(const struct gsp_sentry *sentry);
