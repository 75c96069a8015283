/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rec_rings.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/time.h"
#include "ring/place.h"
#include "sample/dump.h"

#define TICK_NS GSP_NS_PER_S

struct gsp_rec_rings {
    struct gsp_drain *drain; /* made when the first ring is seen */
    char *folder;
    pid_t pid;
    bool subprocesses;
    bool running; /* the thread was started */
    bool stop;    /* under lock */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int failed; /* of the last tick: GSP_E_* */
    struct gsp_err err;
};

/* Rings of a process; most have none. */
static int add_process(struct gsp_rec_rings *rings, pid_t pid, struct gsp_err *err)
{
    struct gsp_place place;
    if (gsp_place_find(pid, &place, NULL) != GSP_OK)
        return GSP_OK;
    int rc = rings->drain ? GSP_OK : gsp_drain_open(rings->folder, NULL, &rings->drain, err);
    return rc == GSP_OK ? gsp_drain_add_place(rings->drain, &place, err) : rc;
}

static int add_processes(struct gsp_rec_rings *rings, struct gsp_err *err)
{
    pid_t *pids = NULL;
    size_t count = 0;
    if (!rings->subprocesses || gsp_tree_pids(rings->pid, &pids, &count, NULL) != GSP_OK)
        return add_process(rings, rings->pid, err);
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < count; i++)
        rc = add_process(rings, pids[i], err);
    free(pids);
    return rc;
}

static void tick(struct gsp_rec_rings *rings, bool flush)
{
    struct gsp_err err = {0};
    int rc = add_processes(rings, &err);
    if (rc == GSP_OK && rings->drain)
        rc = gsp_drain_tick(rings->drain, flush, &err);
    /* Said once, not each second; it may go on by itself, as on a full disk. */
    if (rc < 0 && rings->failed == GSP_OK)
        gsp_log_warn("store", "rings are not drained for now: %s", err.msg);
    rings->failed = rc;
    rings->err = err;
}

static void *drain_on(void *arg)
{
    struct gsp_rec_rings *rings = arg;
    bool stop = false;
    while (!stop) {
        struct timespec until;
        tick(rings, false);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += TICK_NS / GSP_NS_PER_S;
        pthread_mutex_lock(&rings->lock);
        while (!rings->stop && pthread_cond_timedwait(&rings->wake, &rings->lock, &until) == 0)
            continue;
        stop = rings->stop;
        pthread_mutex_unlock(&rings->lock);
    }
    return NULL;
}

static void rings_free(struct gsp_rec_rings *rings)
{
    gsp_drain_close(rings->drain);
    pthread_cond_destroy(&rings->wake);
    pthread_mutex_destroy(&rings->lock);
    free(rings->folder);
    free(rings);
}

/* Signals are the sampler's thread's. */
static int start_thread(struct gsp_rec_rings *rings)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int failed = pthread_create(&rings->thread, NULL, drain_on, rings);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    rings->running = failed == 0;
    return failed;
}

int gsp_rec_rings_start(const struct gsp_rec_rings_opts *opts, struct gsp_rec_rings **out,
                        struct gsp_err *err)
{
    *out = NULL;
    pthread_condattr_t attr;
    struct gsp_rec_rings *rings = calloc(1, sizeof(*rings));
    if (!rings)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    pthread_mutex_init(&rings->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&rings->wake, &attr);
    pthread_condattr_destroy(&attr);
    rings->pid = opts->pid;
    rings->subprocesses = opts->subprocesses;
    rings->folder = strdup(opts->folder);
    const int failed = rings->folder ? start_thread(rings) : 0;
    if (!rings->running) {
        rings_free(rings);
        return gsp_err_set(err, GSP_E_NOMEM, failed, "no thread for the rings of the target");
    }
    *out = rings;
    return GSP_OK;
}

int gsp_rec_rings_stop(struct gsp_rec_rings *rings, struct gsp_drain_stats *stats,
                       struct gsp_err *err)
{
    *stats = (struct gsp_drain_stats){0};
    if (!rings)
        return GSP_OK;
    pthread_mutex_lock(&rings->lock);
    rings->stop = true;
    pthread_cond_signal(&rings->wake);
    pthread_mutex_unlock(&rings->lock);
    pthread_join(rings->thread, NULL);
    tick(rings, true);
    int rc = rings->failed;
    if (rc == GSP_OK && rings->drain)
        rc = gsp_drain_merge_all(rings->drain, &rings->err);
    if (rings->drain)
        *stats = gsp_drain_stats(rings->drain);
    if (rc < 0 && err)
        *err = rings->err;
    rings_free(rings);
    return rc;
}
