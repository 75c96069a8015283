/* SPDX-License-Identifier: Apache-2.0 */
#include "record/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "collect/collect.h"
#include "proc/task.h"
#include "record/launch.h"
#include "record/ring_sink.h"
#include "record/stack_rows.h"
#include "ring/dir.h"
#include "sample/record.h"
#include "sample/tree.h"
#include "wire/control_file.h"
#include "wire/table.h"

#define POLL_NS      (250 * GSP_NS_PER_MS)
#define METRICS_NS   GSP_NS_PER_S
#define COST_NS      (10 * GSP_NS_PER_S)
/* Delay between attempts to find a readable interpreter. */
#define RETRY_MIN_NS GSP_NS_PER_S
#define RETRY_MAX_NS (30 * GSP_NS_PER_S)
/* A profile with more stacks is replaced by a new one. */
#define STACKS_MAX   100000U
#define PERIOD_MIN_S 0.0001
#define PERIOD_MAX_S (1.0 / GSP_RATE_MIN_HZ)

/* The sink of the collectors: passes rows to opts->row and to the rings. */
struct tee_sink {
    struct gsp_collect_sink sink; /* first */
    struct follow *follow;
};

struct follow {
    const struct gsp_follow_opts *opts;
    int folder_fd;
    struct gsp_ring_dir_program program; /* that the process ran at the last check */
    struct gsp_exit_watch *watch;
    struct gsp_stack_rows *rows;
    struct gsp_collect *collect;
    struct gsp_ring_sink sink;
    struct tee_sink tee;
    const struct gsp_profile *profile; /* of the current sampler; NULL */
    volatile sig_atomic_t halt;        /* stops the current sampler */
    double period_s;                   /* current */
    uint64_t serial;                   /* of the control page that set period_s */
    int64_t next_metrics_ns;
    int64_t next_cost_ns;
    int64_t next_try_ns;
    int64_t retry_ns;
    int64_t begin_ns;
    int64_t begin_cpu_ns;
    uint64_t ticks_before;     /* of earlier samplers */
    struct gsp_losses written; /* of the current sampler, already in rows */
    struct gsp_follow_result result;
};

static int64_t rank_of(pid_t pid)
{
    int64_t rank = 0;
    return gsp_proc_rank(pid, &rank) ? rank : GSP_NULL_I64;
}

bool gsp_record__is_followed(const struct gsp_ring_dir *dir)
{
    gsp_auto_fd fd = -1;
    if (gsp_ring_dir_open(dir, &fd, NULL) < 0)
        return false;
    /* A follower holds the lock while it runs. */
    return flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* ---------------------------------------------------------------------------------- settings */

static double parse_period(const char *text, double fallback)
{
    double period_s = 0;
    if (gsp_parse_f64(text, 0, PERIOD_MAX_S, &period_s, NULL) < 0)
        return fallback;
    return period_s > 0 && period_s < PERIOD_MIN_S ? PERIOD_MIN_S : period_s;
}

/* Returns whether the period has changed. */
static bool read_settings(struct follow *follow)
{
    char value[GSP_CONTROL_VALUE];
    struct gsp_control page;
    if (follow->opts->period_s >= 0 ||
        gsp_wire_control_read(follow->folder_fd, &page, NULL) != GSP_OK ||
        atomic_load(&page.serial) == follow->serial ||
        !gsp_wire_control_get(&page, GSP_SET_sample_rate, value))
        return false;
    const double period_s = parse_period(value, follow->period_s);
    const bool is_other = period_s < follow->period_s || period_s > follow->period_s;
    follow->serial = atomic_load(&page.serial);
    follow->period_s = period_s;
    return is_other;
}

/* ------------------------------------------------------------------------------------- rows */

static void put_event(struct follow *follow, const char *kind, const struct gsp_exit_info *ending)
{
    const struct gsp_row_process_event row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = gsp_now_ns(),
        .pid = follow->sink.pid,
        .rank = follow->sink.rank,
        .kind =
            gsp_record__ring_sink_intern(&follow->sink, GSP_TABLE_process_event, gsp_sv_of(kind)),
        .detail = gsp_sv_of(ending->detail),
        .signal = ending->signal,
        .exit_status = ending->exit_status,
    };
    gsp_record__ring_sink_add(&follow->sink, GSP_TABLE_process_event, &row);
}

static void put_loss(struct follow *follow, const char *cause, uint64_t count)
{
    if (count == 0)
        return;
    const struct gsp_row_gsprof_loss row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = gsp_now_ns(),
        .pid = follow->sink.pid,
        .rank = follow->sink.rank,
        .source = gsp_record__ring_sink_intern(&follow->sink, GSP_TABLE_gsprof_loss,
                                               gsp_sv_of("sampler")),
        .cause =
            gsp_record__ring_sink_intern(&follow->sink, GSP_TABLE_gsprof_loss, gsp_sv_of(cause)),
        .count = (int64_t)(count & INT64_MAX),
    };
    gsp_record__ring_sink_add(&follow->sink, GSP_TABLE_gsprof_loss, &row);
}

/* Writes the losses since the last call. */
static void put_losses(struct follow *follow, const struct gsp_losses *losses)
{
    put_loss(follow, "torn", losses->torn - follow->written.torn);
    put_loss(follow, "late", losses->late - follow->written.late);
    put_loss(follow, "failed", losses->failed - follow->written.failed);
    follow->written = *losses;
}

static void put_cost(struct follow *follow, int64_t now_ns)
{
    const int64_t wall_ns = now_ns - follow->begin_ns;
    follow->result.cpu_ns = gsp_cputime_ns() - follow->begin_cpu_ns;
    const struct gsp_row_gsprof_sampler row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = now_ns,
        .pid = follow->sink.pid,
        .rank = follow->sink.rank,
        .period_s = follow->period_s,
        .looks = (int64_t)(follow->result.ticks & INT64_MAX),
        .samples = (int64_t)(follow->result.samples & INT64_MAX),
        .cpu_percent =
            wall_ns > 0 ? 100.0 * (double)follow->result.cpu_ns / (double)wall_ns : gsp_null_f64(),
    };
    gsp_record__ring_sink_add(&follow->sink, GSP_TABLE_gsprof_sampler, &row);
}

/* Updates the list of descendants. */
static void watch_tree(struct follow *follow)
{
    pid_t *pids = NULL;
    size_t count = 0;
    if (gsp_sample_tree_pids(follow->opts->pid, &pids, &count, NULL) == GSP_OK && count > 0)
        gsp_collect_watch(follow->collect, pids, count);
    free(pids);
}

static uint32_t tee_intern(struct gsp_collect_sink *sink, enum gsp_table_id table,
                           struct gsp_sv text)
{
    struct tee_sink *tee = (struct tee_sink *)(void *)sink;
    return gsp_record__ring_sink_intern(&tee->follow->sink, table, text);
}

static void tee_row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row)
{
    struct follow *follow = ((struct tee_sink *)(void *)sink)->follow;
    if (follow->opts->row)
        follow->opts->row(follow->opts->user, table, row);
    gsp_record__ring_sink_add(&follow->sink, table, row);
}

/* Runs a few times per second, with or without stacks. */
static void poll_process(struct follow *follow)
{
    const int64_t now_ns = gsp_now_ns();
    if (*follow->opts->stop || gsp_record__exit_watch_has_exited(follow->watch) ||
        read_settings(follow) ||
        (follow->profile && gsp_model_profile_stack_count(follow->profile) > STACKS_MAX))
        follow->halt = 1;
    /* After an exec, write the metrics of the new program at once. */
    if (gsp_ring_dir_update_cmdline(follow->folder_fd, follow->opts->pid, &follow->program))
        follow->next_metrics_ns = now_ns;
    /* Not for a zombie: it has no memory, and its last row should show the memory it had. */
    if (follow->collect && now_ns >= follow->next_metrics_ns &&
        !gsp_record__exit_watch_wait(follow->watch, 0)) {
        const struct gsp_collect_tick tick = {gsp_realtime_ns(), now_ns};
        follow->next_metrics_ns = now_ns + METRICS_NS - POLL_NS / 2;
        if (follow->opts->tree)
            watch_tree(follow);
        gsp_collect_read(follow->collect, &tick, &follow->tee.sink);
    }
    if (follow->opts->poll)
        follow->opts->poll(follow->opts->user);
    if (now_ns >= follow->next_cost_ns) {
        follow->next_cost_ns = now_ns + COST_NS;
        put_cost(follow, now_ns);
        gsp_ring_dirs_sweep(follow->opts->limits); /* a job may start thousands of workers */
    }
}

/* ------------------------------------------------------------------------------------- stacks */

static int add_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    struct follow *follow = user;
    follow->result.samples++;
    return gsp_record__stack_rows_add(follow->rows, sample, err);
}

static void ignore_change(void *user, uint32_t index)
{
    (void)user;
    (void)index; /* rows have the names at the time they are written */
}

static int on_poll(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err)
{
    struct follow *follow = user;
    (void)err;
    put_losses(follow, &stats->losses);
    follow->result.ticks = follow->ticks_before + stats->ticks;
    poll_process(follow);
    return GSP_OK;
}

/* Samples stacks until poll_process() stops it. */
static int sample_stacks(struct follow *follow, struct gsp_err *err)
{
    const struct gsp_record_sink sink = {.user = follow,
                                         .sample = add_sample,
                                         .thread_changed = ignore_change,
                                         .process_changed = ignore_change,
                                         .poll = on_poll};
    const struct gsp_record_opts opts = {.pid = follow->opts->pid,
                                         .rate_hz = 1.0 / follow->period_s,
                                         .idle = true,
                                         .is_child = follow->opts->is_child,
                                         .poll_ns = POLL_NS};
    struct gsp_profile *profile = NULL;
    struct gsp_record *rec = NULL;
    enum gsp_record_end end = GSP_RECORD_STOPPED;
    int rc = gsp_model_profile_new(false, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_sample_record_new(&opts, profile, &sink, &rec, err);
    if (rc == GSP_OK) {
        follow->profile = profile;
        follow->written = (struct gsp_losses){0};
        gsp_record__stack_rows_set_profile(follow->rows, profile);
        rc = gsp_sample_record_run(rec, &follow->halt, &end, err);
        gsp_record__stack_rows_set_profile(follow->rows, NULL);
        follow->profile = NULL;
        put_losses(follow, &gsp_sample_record_stats(rec)->losses);
        follow->ticks_before += gsp_sample_record_stats(rec)->ticks;
        follow->result.ticks = follow->ticks_before;
    }
    gsp_sample_record_free(rec);
    gsp_model_profile_free(profile);
    return rc;
}

/* The process may become a Python process or readable later. */
static void schedule_retry(struct follow *follow, const struct gsp_err *why)
{
    follow->retry_ns = follow->retry_ns ? follow->retry_ns * 2 : RETRY_MIN_NS;
    if (follow->retry_ns > RETRY_MAX_NS)
        follow->retry_ns = RETRY_MAX_NS;
    follow->next_try_ns = gsp_now_ns() + follow->retry_ns;
    follow->result.stacks_err = *why;
}

static void follow_once(struct follow *follow)
{
    struct gsp_err err = {0};
    follow->halt = 0;
    poll_process(follow);
    if (follow->halt)
        return;
    if (follow->rows && follow->period_s > 0 && gsp_now_ns() >= follow->next_try_ns) {
        if (sample_stacks(follow, &err) < 0) {
            schedule_retry(follow, &err);
        } else {
            follow->retry_ns = 0;
            follow->result.stacks_err = (struct gsp_err){0};
        }
    } else {
        gsp_ignore(gsp_record__exit_watch_wait(follow->watch, POLL_NS));
    }
}

/* ------------------------------------------------------------------------------- open and close */

static int open_all(struct follow *follow, struct gsp_err *err)
{
    const pid_t pid = follow->opts->pid;
    const struct gsp_collect_env env = gsp_collect_env_here();
    struct gsp_procinfo info;
    const int32_t watched = pid;
    int rc = gsp_proc_info(pid, &info, err);
    if (rc == GSP_OK)
        rc = gsp_record__exit_watch_open(pid, &follow->watch, err);
    if (rc < 0)
        return rc;
    /* A child may still run as root. */
    const uid_t owner = gsp_record_launch_user();
    const struct gsp_ring_dir_spec about = {.pid = pid,
                                            .start_time = info.start_ticks,
                                            .rank = rank_of(pid),
                                            .owner = follow->opts->is_child ? &owner : NULL};
    gsp_ring_dirs_sweep(follow->opts->limits); /* rings of exited processes may take the space */
    rc = gsp_ring_dir_create(&about, &follow->folder_fd, err);
    if (rc < 0)
        return rc;
    if (flock(follow->folder_fd, LOCK_EX | LOCK_NB) != 0)
        return gsp_err_set(err, GSP_E_EXISTS, errno, "process %d already has a follower", (int)pid);
    follow->sink.folder_fd = follow->folder_fd;
    follow->sink.pid = pid;
    follow->sink.start_time = info.start_ticks;
    follow->sink.rank = about.rank;
    gsp_record__ring_sink_init(&follow->sink);
    const struct gsp_stack_rows_spec spec = {.folder_fd = follow->folder_fd,
                                             .pid = pid,
                                             .start_time = info.start_ticks,
                                             .rank = about.rank};
    rc = gsp_record__stack_rows_open(&spec, &follow->rows, err);
    if (rc == GSP_E_NOWRITE && err && !follow->opts->no_metrics) {
        /* Rings of metrics are smaller. */
        follow->result.stacks_err = follow->result.space_err = *err;
        follow->result.no_space_for_stacks = true;
        *err = (struct gsp_err){0};
        rc = GSP_OK;
    }
    if (rc < 0 || follow->opts->no_metrics)
        return rc;
    follow->tee = (struct tee_sink){{tee_intern, tee_row}, follow};
    rc = gsp_collect_open(&env, &follow->collect, err);
    if (rc == GSP_OK)
        gsp_collect_watch(follow->collect, &watched, 1);
    return rc;
}

static void close_all(struct follow *follow)
{
    gsp_record__stack_rows_close(follow->rows);
    gsp_collect_close(follow->collect);
    gsp_record__ring_sink_close(&follow->sink);
    gsp_record__exit_watch_close(follow->watch);
    gsp_fd_close(&follow->folder_fd);
}

static void set_room_err(struct follow *follow)
{
    struct gsp_follow_result *result = &follow->result;
    result->no_space_for_metrics = !follow->opts->no_metrics && follow->sink.err.code != GSP_OK;
    if (result->no_space_for_metrics && result->space_err.code == GSP_OK)
        result->space_err = follow->sink.err;
}

static void follow_until_end(struct follow *follow)
{
    const struct gsp_exit_info begin = {
        .signal = GSP_NULL_I64, .exit_status = GSP_NULL_I64, .detail = "from outside"};
    put_event(follow, "followed", &begin);
    if (follow->opts->ready)
        follow->opts->ready(follow->opts->user);
    while (!gsp_record__exit_watch_has_exited(follow->watch) && !*follow->opts->stop)
        follow_once(follow);
    follow->result.has_ended = gsp_record__exit_watch_has_exited(follow->watch);
    set_room_err(follow);
    put_cost(follow, gsp_now_ns());
    if (follow->result.has_ended) {
        gsp_record__exit_watch_get(follow->watch, &follow->result.ending);
        put_event(follow, "end", &follow->result.ending);
    }
}

int gsp_record_follow_run(const struct gsp_follow_opts *opts, struct gsp_follow_result *result,
                          struct gsp_err *err)
{
    struct follow *follow = calloc(1, sizeof(*follow));
    if (!follow)
        return gsp_err_nomem(err);
    follow->opts = opts;
    follow->folder_fd = -1;
    follow->begin_ns = gsp_now_ns();
    follow->begin_cpu_ns = gsp_cputime_ns();
    follow->next_cost_ns = follow->begin_ns + COST_NS;
    if (opts->period_s >= 0)
        follow->period_s = opts->period_s;
    else if (opts->begin_s > 0)
        follow->period_s = opts->begin_s;
    else
        follow->period_s = parse_period(gsp_wire_setting_row(GSP_SET_sample_rate)->fallback, 0);
    const int rc = open_all(follow, err);
    if (rc == GSP_OK) {
        gsp_ignore(read_settings(follow));
        follow_until_end(follow);
    }
    if (result)
        *result = follow->result;
    close_all(follow);
    free(follow);
    return rc;
}
