/* SPDX-License-Identifier: Apache-2.0 */
#include "store/query_watchdog.h"

#include <time.h>

#include "base/time.h"

/* The engine ignores an interrupt before the query starts, so it is repeated at this interval. */
#define AGAIN_NS (5 * GSP_NS_PER_MS)
/* Longest sleep of the thread. */
#define WAIT_NS  (3600 * GSP_NS_PER_S)

static void wait_until(struct gsp_query_watchdog *watch, int64_t when_ns)
{
    const int64_t now = gsp_now_ns();
    if (when_ns - now > WAIT_NS)
        when_ns = now + WAIT_NS;
    const struct timespec at = {when_ns / GSP_NS_PER_S, when_ns % GSP_NS_PER_S};
    (void)sem_clockwait(&watch->wake, CLOCK_MONOTONIC, &at);
}

static void interrupt_engine(struct gsp_query_watchdog *watch)
{
    gsp_lock_take(&watch->lock);
    if (atomic_load(&watch->deadline_ns) != 0)
        watch->duck->interrupt(watch->con);
    gsp_lock_release(&watch->lock);
}

static void *run(void *arg)
{
    struct gsp_query_watchdog *watch = arg;
    while (!atomic_load(&watch->quit)) {
        const int64_t deadline = atomic_load(&watch->deadline_ns);
        if (deadline == 0) {
            atomic_store(&watch->idle, true);
            if (atomic_load(&watch->deadline_ns) == 0)
                (void)sem_wait(&watch->wake);
            atomic_store(&watch->idle, false);
            continue;
        }
        const int64_t now = gsp_now_ns();
        const bool interrupted = atomic_load(&watch->interrupted);
        if (!interrupted && now < deadline) {
            wait_until(watch, deadline);
            continue;
        }
        if (!interrupted)
            atomic_store(&watch->timed_out, true);
        interrupt_engine(watch);
        wait_until(watch, now + AGAIN_NS);
    }
    return NULL;
}

int gsp_store__watchdog_start(struct gsp_query_watchdog *watch, const struct gsp_duckdb *duck,
                              duckdb_connection con, struct gsp_err *err)
{
    watch->duck = duck;
    watch->con = con;
    sem_init(&watch->wake, 0, 0);
    const int sys = pthread_create(&watch->thread, NULL, run, watch);
    if (sys != 0) {
        sem_destroy(&watch->wake);
        return gsp_err_set(err, GSP_E_NOMEM, sys, "cannot create a thread");
    }
    watch->started = true;
    return GSP_OK;
}

void gsp_store__watchdog_stop(struct gsp_query_watchdog *watch)
{
    if (!watch->started)
        return;
    atomic_store(&watch->quit, true);
    sem_post(&watch->wake);
    pthread_join(watch->thread, NULL);
    sem_destroy(&watch->wake);
    watch->started = false;
}

void gsp_store__watchdog_begin(struct gsp_query_watchdog *watch, int64_t limit_ns)
{
    watch->left_ns = limit_ns;
    atomic_store(&watch->interrupted, false);
    atomic_store(&watch->timed_out, false);
}

void gsp_store__watchdog_arm(struct gsp_query_watchdog *watch)
{
    watch->armed_ns = gsp_now_ns();
    const int64_t left = watch->left_ns;
    atomic_store(&watch->deadline_ns,
                 left > INT64_MAX - watch->armed_ns ? INT64_MAX : watch->armed_ns + left);
    /* If the thread waits for an earlier deadline, it wakes up by itself. */
    if (atomic_load(&watch->idle))
        sem_post(&watch->wake);
}

void gsp_store__watchdog_disarm(struct gsp_query_watchdog *watch)
{
    gsp_lock_take(&watch->lock);
    atomic_store(&watch->deadline_ns, 0);
    gsp_lock_release(&watch->lock);
    if (watch->left_ns != INT64_MAX) {
        const int64_t used = gsp_now_ns() - watch->armed_ns;
        watch->left_ns = used < watch->left_ns ? watch->left_ns - used : 0;
    }
}

void gsp_store__watchdog_interrupt(struct gsp_query_watchdog *watch)
{
    atomic_store(&watch->interrupted, true);
    sem_post(&watch->wake);
}
