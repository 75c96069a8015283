/* SPDX-License-Identifier: Apache-2.0 */
#include "record/ring_drain.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "record/announcements.h"
#include "record/run_dir.h"
#include "ring/dir.h"
#include "sample/tree.h"
#include "source/allocations.h"

#define TICK_NS GSP_NS_PER_S

struct gsp_ring_drain {
    struct gsp_drain *drain; /* opened when the first ring is found */
    char *folder;
    char *shown;                /* the path of the folder in messages */
    int announcements_fd;       /* -1: none */
    size_t announcements_bytes; /* of that file, already read */
    pid_t pid;
    uid_t owner;
    bool subprocesses;
    struct gsp_drain_options drain_opts;
    pthread_t thread;
    struct gsp_lock lock;
    pthread_cond_t wake;
    bool stop GSP_GUARDED_BY(lock);
    struct gsp_ring_drain_counts seen GSP_GUARDED_BY(lock);
    int failed; /* result of the last tick */
    struct gsp_err err;
};

/* Whether the rings are those of the program, or gsprof's own about it. The announcements are
 * written by the program, which may name processes of others. */
static bool is_ours(const struct gsp_ring_drain *rings, const struct gsp_ring_dir *dir,
                    bool is_below)
{
    return dir->uid == rings->owner || (dir->uid == geteuid() && dir->owner == rings->owner) ||
           (is_below && rings->owner == 0); /* a program of root may start others as other users */
}

/* Does nothing if the process has no rings. */
static int add_process(struct gsp_ring_drain *rings, pid_t pid, bool is_below, struct gsp_err *err)
{
    struct gsp_ring_dir_pair dirs;
    if (gsp_ring_dir_find_pair(pid, rings->owner, &dirs, NULL) != GSP_OK)
        return GSP_OK;
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < dirs.count; i++) {
        if (!is_ours(rings, &dirs.at[i], is_below))
            continue;
        if (!rings->drain)
            rc = gsp_store_drain_open(rings->folder, &rings->drain_opts, &rings->drain, err);
        if (rc == GSP_OK)
            rc = gsp_store_drain_add_ring_dir(rings->drain, &dirs.at[i], err);
    }
    return rc;
}

static int add_processes(struct gsp_ring_drain *rings, struct gsp_err *err)
{
    pid_t *pids = NULL;
    size_t count = 0;
    if (!rings->subprocesses || gsp_sample_tree_pids(rings->pid, &pids, &count, NULL) != GSP_OK)
        return add_process(rings, rings->pid, true, err);
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < count; i++)
        rc = add_process(rings, pids[i], true, err);
    free(pids);
    return rc;
}

static int add_announced(void *user, pid_t pid, bool is_well, struct gsp_err *err)
{
    (void)is_well;
    return add_process(user, pid, false, err);
}

static int read_announcements(struct gsp_ring_drain *rings, struct gsp_err *err)
{
    return gsp_record__announcements_next(rings->announcements_fd, &rings->announcements_bytes,
                                          add_announced, rings, err);
}

static void update_counters(struct gsp_ring_drain *rings)
{
    struct gsp_ring_drain_counts seen = {.looked_ns = gsp_now_ns(), .failing = rings->failed < 0};
    size_t sampled = 0;
    if (rings->drain) {
        seen.samples =
            gsp_store_drain_published(rings->drain, GSP_TABLE_python_stack_sample, &sampled);
        seen.steps =
            gsp_store_drain_published(rings->drain, GSP_TABLE_python_torch_step, &seen.step_rings);
        seen.lost = gsp_store_drain_stats(rings->drain).lost;
    }
    gsp_lock_take(&rings->lock);
    rings->seen = seen;
    gsp_lock_release(&rings->lock);
}

static void tick(struct gsp_ring_drain *rings, bool flush)
{
    struct gsp_err err = {0};
    int rc = add_processes(rings, &err);
    if (rc == GSP_OK)
        rc = read_announcements(rings, &err);
    if (rc == GSP_OK && rings->drain)
        rc = gsp_store_drain_tick(rings->drain, flush, &err);
    gsp_record__run_dir_name_error(rings->folder, rings->shown, &err);
    /* Logged once: the drain may recover, for example when a full disk gets space. */
    if (rc < 0 && rings->failed == GSP_OK)
        gsp_log_warn("store", "cannot drain rings: %s", err.msg);
    rings->failed = rc;
    rings->err = err;
    update_counters(rings);
}

static void *drain_periodically(void *arg)
{
    struct gsp_ring_drain *rings = arg;
    bool stop = false;
    while (!stop) {
        tick(rings, false);
        const int64_t deadline_ns = gsp_now_ns() + TICK_NS;
        gsp_lock_take(&rings->lock);
        while (!rings->stop && gsp_lock_wait_until(&rings->lock, &rings->wake, deadline_ns))
            continue;
        stop = rings->stop;
        gsp_lock_release(&rings->lock);
    }
    return NULL;
}

void gsp_record__ring_drain_free(struct gsp_ring_drain *rings)
{
    if (!rings)
        return;
    gsp_store_drain_close(rings->drain);
    pthread_cond_destroy(&rings->wake);
    free(rings->folder);
    free(rings->shown);
    free(rings);
}

static int copy_paths(struct gsp_ring_drain *rings, const struct gsp_ring_drain_opts *opts,
                      struct gsp_err *err)
{
    rings->folder = strdup(opts->folder);
    rings->shown = strdup(opts->shown ? opts->shown : opts->folder);
    return rings->folder && rings->shown ? GSP_OK : gsp_err_nomem(err);
}

int gsp_record_ring_drain_start(const struct gsp_ring_drain_opts *opts, struct gsp_ring_drain **out,
                                struct gsp_err *err)
{
    *out = NULL;
    struct gsp_ring_drain *rings = calloc(1, sizeof(*rings));
    if (!rings)
        return gsp_err_nomem(err);
    gsp_thread_cond_init(&rings->wake);
    rings->pid = opts->pid;
    rings->owner = opts->owner;
    rings->subprocesses = opts->subprocesses;
    rings->announcements_fd = opts->announcements ? opts->announcements->fd : -1;
    rings->drain_opts.segment_age_ns = opts->segment_age_ns;
    int rc = copy_paths(rings, opts, err);
    if (rc == GSP_OK && opts->now)
        rc = gsp_store_drain_open(rings->folder, &rings->drain_opts, &rings->drain, err);
    if (rc < 0)
        gsp_record__run_dir_name_error(opts->folder, opts->shown, err);
    if (rc == GSP_OK && gsp_thread_start(&rings->thread, drain_periodically, rings) != 0)
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "cannot start a thread to drain the rings");
    if (rc < 0)
        gsp_record__ring_drain_free(rings);
    else
        *out = rings;
    return rc;
}

struct gsp_ring_drain_counts gsp_record_ring_drain_counts(struct gsp_ring_drain *rings)
{
    gsp_lock_take(&rings->lock);
    const struct gsp_ring_drain_counts seen = rings->seen;
    gsp_lock_release(&rings->lock);
    return seen;
}

const struct gsp_ring_dir *gsp_record__ring_drain_dir_at(const struct gsp_ring_drain *rings,
                                                         size_t i)
{
    return rings->drain ? gsp_store_drain_ring_dir_at(rings->drain, i) : NULL;
}

/* The allocation counters and their stacks are not in rings: writes their final values. */
static int write_allocations(const struct gsp_ring_drain *rings, enum gsp_table_id table,
                             struct gsp_err *err)
{
    struct gsp_batch *batch = NULL;
    int rc = gsp_store_batch_new(gsp_wire_table_at(table), NULL, GSP_NULL_I64, GSP_NULL_I64, &batch,
                                 err);
    const struct gsp_ring_dir *dir = NULL;
    for (size_t i = 0; rc == GSP_OK && (dir = gsp_store_drain_ring_dir_at(rings->drain, i)); i++) {
        struct gsp_ring_dir copy = *dir;
        struct gsp_err cause = {0};
        /* Counters that cannot be read are left out. */
        rc = gsp_source_allocations_fill(&copy, batch, &cause) == GSP_E_NOMEM ? gsp_err_nomem(err)
                                                                              : GSP_OK;
    }
    if (rc == GSP_OK)
        return gsp_store_drain_write(rings->drain, batch, err);
    gsp_store_batch_free(batch);
    return rc;
}

int gsp_record__ring_drain_finish(struct gsp_ring_drain *rings, struct gsp_store_drain_stats *stats,
                                  struct gsp_err *err)
{
    gsp_lock_take(&rings->lock);
    rings->stop = true;
    pthread_cond_signal(&rings->wake);
    gsp_lock_release(&rings->lock);
    pthread_join(rings->thread, NULL);
    tick(rings, true);
    int rc = rings->failed;
    if (rc == GSP_OK && rings->drain)
        rc = write_allocations(rings, GSP_TABLE_python_allocation, &rings->err);
    if (rc == GSP_OK && rings->drain)
        rc = write_allocations(rings, GSP_TABLE_python_stack, &rings->err);
    if (rc == GSP_OK && rings->drain)
        rc = gsp_store_drain_merge_all(rings->drain, &rings->err);
    *stats = rings->drain ? gsp_store_drain_stats(rings->drain) : (struct gsp_store_drain_stats){0};
    gsp_record__run_dir_name_error(rings->folder, rings->shown, &rings->err);
    if (rc < 0 && err)
        *err = rings->err;
    return rc;
}

int gsp_record_ring_drain_stop(struct gsp_ring_drain *rings, struct gsp_store_drain_stats *stats,
                               struct gsp_err *err)
{
    *stats = (struct gsp_store_drain_stats){0};
    if (!rings)
        return GSP_OK;
    const int rc = gsp_record__ring_drain_finish(rings, stats, err);
    gsp_record__ring_drain_free(rings);
    return rc;
}
