/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h -- starting threads, and what they block.
 *
 * Threads: no state.
 */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "base/attr.h"

/* Fills the set with all signals except those that a fault of the running thread raises. If such a
 * signal is blocked, a fault kills the process, although it has a handler (ring/guard.h). */
void gsp_thread_async_signals(sigset_t *set);

/* Starts a thread that blocks all these signals: they are left to the threads that handle them.
 * Returns 0 or the number of a system error. */
GSP_MUST_CHECK int gsp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Initializes a condition variable that uses CLOCK_MONOTONIC. Returns 0 or the number of a system
 * error. */
int gsp_thread_cond_init(pthread_cond_t *cond);
