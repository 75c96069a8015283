/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_watchdog.h -- a thread that interrupts a query at its time limit or on request.
 *
 * Threads: the owner arms and disarms; any thread or signal handler may interrupt.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/lock.h"
#include "store/engine.h"

struct gsp_query_watchdog {
    const struct gsp_duckdb *duck;
    duckdb_connection con;
    pthread_t thread;
    struct gsp_lock lock; /* keeps the query armed while the engine is interrupted */
    sem_t wake;
    int64_t left_ns; /* remaining time of the query; INT64_MAX: no limit */
    int64_t armed_ns;
    _Atomic int64_t deadline_ns; /* CLOCK_MONOTONIC; 0: disarmed */
    _Atomic bool idle;           /* the thread waits for the next query */
    _Atomic bool interrupted;
    _Atomic bool timed_out;
    _Atomic bool quit;
    bool started;
};

GSP_MUST_CHECK int gsp_store__watchdog_start(struct gsp_query_watchdog *watch,
                                             const struct gsp_duckdb *duck, duckdb_connection con,
                                             struct gsp_err *err);
void gsp_store__watchdog_stop(struct gsp_query_watchdog *watch); /* {0} does nothing */

/* Starts a query with a time limit. */
void gsp_store__watchdog_begin(struct gsp_query_watchdog *watch, int64_t limit_ns);
/* Called around each long call of the engine. Only the time in between counts. */
void gsp_store__watchdog_arm(struct gsp_query_watchdog *watch);
void gsp_store__watchdog_disarm(struct gsp_query_watchdog *watch);

void gsp_store__watchdog_interrupt(struct gsp_query_watchdog *watch);
