/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/daemon_internal.h"
#include "ring/dir.h"

#define MAINTAIN_EVERY_NS  GSP_NS_PER_S
#define OVERHEADS_EVERY_NS (5 * GSP_NS_PER_S)
#define RINGS_EVERY_NS     (600 * GSP_NS_PER_S)
#define OWN_OVERHEAD_NS    (10 * GSP_NS_PER_S)
#define COLLECT_NICE       (-10)
/* The shortest distance between a requested frame and its neighbours: rates over less than two
 * ticks of the kernel are meaningless, and requests must not keep a core busy. */
#define FRAME_APART_NS     (20 * GSP_NS_PER_MS)
/* The longest time to wait for a requested frame, because a source may hang. */
#define FRAME_WAIT_NS      (2 * GSP_NS_PER_S)

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * GSP_NS_PER_S + t.tv_nsec;
}

void gsp_daemon__status_changed(struct gsp_daemon *daemon)
{
    atomic_fetch_add(&daemon->serial, 1);
}

static void rewatch(struct gsp_daemon *daemon) GSP_REQUIRES(&daemon->watch_lock)
{
    int32_t *pids = NULL;
    size_t count = 0;
    if (gsp_daemon__sessions_pids(daemon->sessions, &pids, &count, NULL) < 0)
        return;
    if (gsp_daemon__targets_add_pids(daemon->targets, &pids, &count) < 0) {
        free(pids);
        return;
    }
    gsp_lock_take(&daemon->lock);
    const bool same = count == daemon->watched_count &&
                      (count == 0 || memcmp(pids, daemon->watched, count * sizeof(*pids)) == 0);
    if (same) {
        free(pids);
    } else {
        free(daemon->watched);
        daemon->watched = pids;
        daemon->watched_count = count;
        daemon->watch_changed = true;
    }
    gsp_lock_release(&daemon->lock);
}

void gsp_daemon__watched_update(struct gsp_daemon *daemon)
{
    gsp_lock_take(&daemon->watch_lock);
    rewatch(daemon);
    gsp_lock_release(&daemon->watch_lock);
}

static void put_settings(struct gsp_daemon *daemon, const struct gsp_collect_tick *tick)
{
    struct gsp_daemon_rows *rows = &daemon->rows;
    const struct gsp_settings now = {.fixed = *daemon->fixed,
                                     .live = gsp_daemon__live_settings(daemon)};
    for (size_t i = 0; gsp_daemon__setting_at(i); i++) {
        const struct gsp_setting *about = gsp_daemon__setting_at(i);
        gsp_auto_buf name = {0};
        gsp_auto_buf value = {0};
        gsp_buf_printf(&name, GSP_SETTING_PREFIX "%s", about->name);
        gsp_daemon__setting_text(&now, i, &value);
        const enum gsp_table_id table = GSP_TABLE_gsprof_setting;
        const struct gsp_row_gsprof_setting row = {
            .ts_ns = tick->ts_ns,
            .mono_ns = tick->mono_ns,
            .pid = getpid(),
            .rank = GSP_NULL_I64,
            .name = rows->sink.intern(&rows->sink, table, gsp_buf_sv(&name)),
            .value = gsp_buf_sv(&value),
            .type = rows->sink.intern(&rows->sink, table, gsp_sv_of(about->type)),
            .default_value = gsp_sv_of(about->fallback),
            .description = gsp_sv_of(about->doc),
        };
        gsp_daemon__rows_add_to_ring(rows, table, &row);
    }
}

/* CPU time of this daemon since its start, in percent of the wall time. */
static void put_overhead(struct gsp_daemon *daemon, const struct gsp_collect_tick *tick)
{
    struct gsp_daemon_rows *rows = &daemon->rows;
    const int64_t wall_ns = tick->mono_ns - daemon->start_mono_ns;
    const enum gsp_table_id table = GSP_TABLE_gsprof_overhead;
    if (wall_ns <= 0)
        return;
    const struct gsp_row_gsprof_overhead row = {
        .ts_ns = tick->ts_ns,
        .mono_ns = tick->mono_ns,
        .pid = getpid(),
        .rank = GSP_NULL_I64,
        .source = rows->sink.intern(&rows->sink, table, gsp_sv_of("daemon")),
        .percent = 100.0 * (double)gsp_cputime_ns() / (double)wall_ns,
        .low_percent = gsp_null_f64(),
        .high_percent = gsp_null_f64(),
        .samples = (int64_t)atomic_load(&daemon->ticks),
    };
    gsp_daemon__rows_add_to_ring(rows, table, &row);
}

static void put_loss(struct gsp_daemon *daemon, const struct gsp_collect_tick *tick,
                     uint64_t missed)
{
    struct gsp_daemon_rows *rows = &daemon->rows;
    const enum gsp_table_id table = GSP_TABLE_gsprof_loss;
    const struct gsp_row_gsprof_loss row = {
        .ts_ns = tick->ts_ns,
        .mono_ns = tick->mono_ns,
        .pid = getpid(),
        .rank = GSP_NULL_I64,
        .source = rows->sink.intern(&rows->sink, table, gsp_sv_of("collector")),
        .cause = rows->sink.intern(&rows->sink, table, gsp_sv_of("late")),
        .count = (int64_t)missed,
    };
    gsp_daemon__rows_add_to_ring(rows, table, &row);
}

/* Copies the state of the sources for the other threads. */
static void copy_sources(struct gsp_daemon *daemon)
{
    struct gsp_collect_state state;
    size_t i = 0;
    gsp_lock_take(&daemon->lock);
    for (; i < GSP_SOURCES_MAX && gsp_collect_state(daemon->collect, i, &state); i++) {
        struct gsp_source_state *to = &daemon->sources[i];
        to->name = state.name;
        to->doc = state.doc;
        to->open = state.open;
        snprintf(to->trouble, sizeof(to->trouble), "%s", state.trouble ? state.trouble : "");
    }
    daemon->source_count = i;
    gsp_lock_release(&daemon->lock);
}

static void tick(struct gsp_daemon *daemon, uint64_t missed)
{
    gsp_frames_log_announce(daemon->frames);
    const struct gsp_collect_tick now = {.ts_ns = gsp_realtime_ns(), .mono_ns = gsp_now_ns()};
    const int64_t cpu_ns = thread_cpu_ns();
    struct gsp_err err = {0};
    gsp_frames_log_begin(daemon->frames, &now);
    gsp_daemon__rows_begin(&daemon->rows, &now);
    gsp_collect_read(daemon->collect, &now, &daemon->rows.sink);
    if (missed)
        put_loss(daemon, &now, missed);
    gsp_daemon__rows_end(&daemon->rows);
    /* The frame log counts lost frames, and /status shows the count. */
    if (gsp_frames_log_end(daemon->frames, &err) < 0)
        gsp_log_debug("daemon", "%s", err.msg);
    copy_sources(daemon);
    atomic_fetch_add(&daemon->ticks, 1);
    atomic_fetch_add(&daemon->late_ticks, missed);
    atomic_fetch_add(&daemon->collect_ns, thread_cpu_ns() - cpu_ns);
    gsp_daemon__status_changed(daemon);
    gsp_http_wake(daemon->server);
}

/* Requests of other threads to the collecting thread. */
struct orders {
    int32_t *pids;
    size_t pid_count;
    bool watch;
    bool settings;
};

static void take_orders(struct gsp_daemon *daemon, struct orders *out) GSP_REQUIRES(&daemon->lock)
{
    *out = (struct orders){.watch = daemon->watch_changed, .settings = daemon->settings_changed};
    if (out->watch && daemon->watched_count) {
        out->pids = calloc(daemon->watched_count, sizeof(*out->pids));
        if (out->pids) {
            memcpy(out->pids, daemon->watched, daemon->watched_count * sizeof(*out->pids));
            out->pid_count = daemon->watched_count;
        }
    }
    daemon->watch_changed = false;
    daemon->settings_changed = false;
}

static void execute_orders(struct gsp_daemon *daemon, struct orders *orders)
{
    const struct gsp_collect_tick now = {.ts_ns = gsp_realtime_ns(), .mono_ns = gsp_now_ns()};
    if (orders->watch)
        gsp_collect_watch(daemon->collect, orders->pids, orders->pid_count);
    if (orders->settings)
        put_settings(daemon, &now);
    free(orders->pids);
}

/* When the next frame is due: at its tick, or earlier if one was requested. */
static int64_t next_due(const struct gsp_daemon *daemon, int64_t tick_ns)
    GSP_REQUIRES(&daemon->lock)
{
    const int64_t early_ns = daemon->last_tick_ns + FRAME_APART_NS;
    gsp_assert(daemon->frame_done <= daemon->frame_wanted);
    return daemon->frame_wanted > daemon->frame_done && tick_ns - early_ns >= FRAME_APART_NS
               ? early_ns
               : tick_ns;
}

/* Sleeps until a frame is due or the period changes. Returns false if the daemon stops. */
static bool sleep_until(struct gsp_daemon *daemon, int64_t tick_ns) GSP_REQUIRES(&daemon->lock)
{
    while (!daemon->stopping && !daemon->period_changed)
        if (!gsp_lock_wait_until(&daemon->lock, &daemon->changed, next_due(daemon, tick_ns)))
            break;
    return !daemon->stopping;
}

void *gsp_daemon__collect(void *arg)
{
    struct gsp_daemon *daemon = arg;
    int64_t next_ns = gsp_now_ns();
    int64_t overhead_ns = next_ns;
    prctl(PR_SET_NAME, "gsprof-collect");
    /* Ticks are short and must be on time. Without the privilege this has no effect. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), COLLECT_NICE);
    gsp_lock_take(&daemon->lock);
    while (sleep_until(daemon, next_ns)) {
        struct orders orders;
        const int64_t period_ns = daemon->live.period_ns;
        const bool new_period = daemon->period_changed;
        const uint64_t wanted = daemon->frame_wanted;
        daemon->period_changed = false;
        const int64_t begun_ns = gsp_now_ns();
        take_orders(daemon, &orders);
        gsp_lock_release(&daemon->lock);
        execute_orders(daemon, &orders);
        if (new_period) {
            gsp_frames_log_set_period(daemon->frames, period_ns);
            next_ns = gsp_now_ns();
        }
        /* Missed ticks are skipped, so that the schedule neither drifts nor bursts. */
        const int64_t behind_ns = gsp_now_ns() - next_ns;
        const int64_t missed = behind_ns > 0 ? behind_ns / period_ns : 0;
        tick(daemon, (uint64_t)missed);
        if (behind_ns >= 0) /* otherwise the frame was requested and the tick is still to come */
            next_ns += (missed + 1) * period_ns;
        if (gsp_now_ns() - overhead_ns > OWN_OVERHEAD_NS) {
            const struct gsp_collect_tick now = {.ts_ns = gsp_realtime_ns(),
                                                 .mono_ns = gsp_now_ns()};
            put_overhead(daemon, &now);
            overhead_ns = now.mono_ns;
        }
        gsp_lock_take(&daemon->lock);
        daemon->frame_done = wanted;
        daemon->last_tick_ns = begun_ns;
        pthread_cond_broadcast(&daemon->framed);
    }
    gsp_lock_release(&daemon->lock);
    return NULL;
}

uint64_t gsp_daemon__frame_request(struct gsp_daemon *daemon)
{
    gsp_lock_take(&daemon->lock);
    const uint64_t request = ++daemon->frame_wanted;
    pthread_cond_broadcast(&daemon->changed);
    gsp_lock_release(&daemon->lock);
    return request;
}

static void await_frame(struct gsp_daemon *daemon, uint64_t request, int64_t deadline_ns)
{
    gsp_lock_take(&daemon->lock);
    while (!daemon->stopping && daemon->frame_done < request &&
           gsp_lock_wait_until(&daemon->lock, &daemon->framed, deadline_ns)) {
    }
    gsp_lock_release(&daemon->lock);
}

static bool has_fresh_frame(struct gsp_daemon *daemon)
{
    gsp_lock_take(&daemon->lock);
    const int64_t age_ns = gsp_now_ns() - daemon->last_tick_ns;
    const bool is_fresh = daemon->last_tick_ns && age_ns < FRAME_APART_NS;
    gsp_lock_release(&daemon->lock);
    return is_fresh;
}

void gsp_daemon__frame_ensure_last(struct gsp_daemon *daemon, const char *session)
{
    const uint64_t first = gsp_daemon__sessions_first_frame(daemon->sessions, session);
    const int64_t deadline_ns = gsp_now_ns() + FRAME_WAIT_NS;
    /* The frame that the start of the session requested may answer the first request as well. Then
     * a second one is needed. */
    for (unsigned i = 0; first && i < 2; i++) {
        const bool is_fresh = i > 0 || has_fresh_frame(daemon);
        if (is_fresh && gsp_frames_log_count(daemon->frames, first, UINT64_MAX) >= 2)
            return;
        await_frame(daemon, gsp_daemon__frame_request(daemon), deadline_ns);
    }
}

/* Reads what the agents of this machine's processes have measured. */
static void update_overheads(struct gsp_daemon *daemon)
{
    struct gsp_overhead now[GSP_OVERHEADS_MAX] = {0};
    const size_t count =
        gsp_daemon__overheads_read(daemon->fixed->all_users, now, GSP_OVERHEADS_MAX);
    gsp_lock_take(&daemon->lock);
    const bool same = count == daemon->overhead_count &&
                      memcmp(now, daemon->overheads, count * sizeof(*now)) == 0;
    memcpy(daemon->overheads, now, sizeof(now));
    daemon->overhead_count = count;
    gsp_lock_release(&daemon->lock);
    if (!same)
        gsp_daemon__status_changed(daemon);
}

static void sweep_rings(struct gsp_daemon *daemon)
{
    const struct gsp_settings_live live = gsp_daemon__live_settings(daemon);
    const struct gsp_ring_dir_limits limits = gsp_daemon_settings_ring_limits(&live);
    gsp_ring_dirs_sweep(&limits);
}

void *gsp_daemon__maintain(void *arg)
{
    struct gsp_daemon *daemon = arg;
    int64_t rings_ns = gsp_now_ns();
    int64_t overheads_ns = rings_ns;
    uint64_t seen = UINT64_MAX;
    prctl(PR_SET_NAME, "gsprof-tend");
    gsp_lock_take(&daemon->lock);
    int64_t due_ns = rings_ns + MAINTAIN_EVERY_NS;
    while (!daemon->stopping) {
        if (gsp_lock_wait_until(&daemon->lock, &daemon->changed, due_ns))
            continue;
        gsp_lock_release(&daemon->lock);
        gsp_daemon__sessions_maintain(daemon->sessions, gsp_realtime_ns());
        const bool forgotten = gsp_daemon__targets_maintain(daemon->targets);
        /* There may be thousands of sessions, so they are read only after a change. */
        const uint64_t changes = gsp_daemon__sessions_changes(daemon->sessions);
        if (forgotten || changes != seen)
            gsp_daemon__watched_update(daemon);
        seen = changes;
        if (gsp_now_ns() >= rings_ns) {
            sweep_rings(daemon);
            rings_ns = gsp_now_ns() + RINGS_EVERY_NS;
        }
        /* Reading the rings of many processes takes time, so this waits for a reader of /status. */
        if (gsp_now_ns() >= overheads_ns && atomic_exchange(&daemon->status_was_read, false)) {
            update_overheads(daemon);
            overheads_ns = gsp_now_ns() + OVERHEADS_EVERY_NS;
        }
        due_ns = gsp_now_ns() + MAINTAIN_EVERY_NS;
        gsp_lock_take(&daemon->lock);
    }
    gsp_lock_release(&daemon->lock);
    return NULL;
}
