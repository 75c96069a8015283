/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h -- a thread that interrupts a query at its time limit or on request.
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

struct gsp_watch {
    const struct gsp_duck *duck;
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

GSP_MUST_CHECK int gsp_store__watch_start(struct gsp_watch *watch, const struct gsp_duck *duck,
                                          duckdb_connection con, struct gsp_err *err);
void gsp_store__watch_stop(struct gsp_watch *watch); /* {0} does nothing */

/* Starts a query with a time limit. */
void gsp_store__watch_query(struct gsp_watch *watch, int64_t limit_ns);
/* Called around each long call of the engine. Only the time in between counts. */
void gsp_store__watch_arm(struct gsp_watch *watch);
void gsp_store__watch_disarm(struct gsp_watch *watch);

void gsp_store__watch_interrupt(struct gsp_watch *watch);
