/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h -- starting threads.
 *
 * Threads: no state.
 */
#pragma once

#include <pthread.h>

#include "base/attr.h"

/* Starts a thread that blocks all signals: they are left to the threads that handle them. Returns 0
 * or the number of a system error. */
GSP_MUST_CHECK int gsp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Initializes a condition variable that uses CLOCK_MONOTONIC. Returns 0 or the number of a system
 * error. */
int gsp_thread_cond_init(pthread_cond_t *cond);
