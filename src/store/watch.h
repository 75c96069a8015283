/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h -- a thread that ends a query that takes too long or was interrupted.
 *
 * Used by: store/ alone.
 * Threads: arm and disarm by the owner; interrupt by any thread or a signal handler.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/engine.h"

struct gsp_watch {
    const struct gsp_duck *duck;
    duckdb_connection con;
    pthread_t thread;
    pthread_mutex_t lock; /* over deadline_ns, while the engine is told */
    sem_t wake;
    int64_t left_ns; /* of the query's time; INT64_MAX: no limit */
    int64_t armed_ns;
    _Atomic int64_t deadline_ns; /* CLOCK_MONOTONIC; 0: nothing runs */
    _Atomic bool idle;           /* the thread waits for the next query */
    _Atomic bool interrupted;
    _Atomic bool timed_out;
    _Atomic bool quit;
    bool started;
};

GSP_MUST_CHECK int gsp_store__watch_start(struct gsp_watch *watch, const struct gsp_duck *duck,
                                          duckdb_connection con, struct gsp_err *err);
void gsp_store__watch_stop(struct gsp_watch *watch); /* {0} does nothing */

/* A new query, which may take so long. */
void gsp_store__watch_query(struct gsp_watch *watch, int64_t limit_ns);
/* Around each call of the engine that may take long; only that time counts. */
void gsp_store__watch_arm(struct gsp_watch *watch);
void gsp_store__watch_disarm(struct gsp_watch *watch);

void gsp_store__watch_interrupt(struct gsp_watch *watch);
