/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_finish.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/time.h"
#include "record/ring_notes.h"
#include "report/document_write.h"
#include "report/verdict.h"
#include "store/query_each.h"
#include "store/run_list.h"
#include "store/run_profile.h"
#include "wire/table.h"

/* A follower notices the exit of its process within a quarter of a second. */
#define FOLLOWERS_NS (2 * GSP_NS_PER_S)
#define POLL_NS      (5 * GSP_NS_PER_MS)
/* Bytes of a version such as "3.11.2". */
#define VERSION_MAX  32U

struct finish {
    const struct gsp_run_finish_opts *opts;
    struct gsp_run_finish_result *result;
    struct gsp_run_process *processes;
    size_t process_count;
    struct gsp_ring_dir *ring_dirs; /* of the processes, one or two each */
    size_t ring_dir_count;
    size_t *process_of; /* index of the process of each of them */
    char *cmdlines;     /* storage for the processes' strings */
    char (*versions)[VERSION_MAX];
    struct gsp_store *store;
    struct gsp_profile *profile; /* NULL: too many samples to keep in memory */
    uint64_t samples;
    int64_t period_ns;
};

/* Keeps the first failure for the caller. */
static bool is_fine(struct finish *finish, int rc, const struct gsp_err *err)
{
    const struct gsp_run_dir *dir = finish->opts->dir;
    if (rc < 0 && finish->result->err.code == GSP_OK) {
        finish->result->err = *err;
        gsp_record__run_dir_name_error(dir->handle, dir->path, &finish->result->err);
    }
    return rc == GSP_OK;
}

/* ------------------------------------------------------------------------------------- rows */

/* A follower writes the last rows of its process shortly after the process exits. */
static void wait_for_followers(const struct gsp_announcements *announced)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    const int64_t until_ns = gsp_now_ns() + FOLLOWERS_NS;
    for (size_t i = 0; i < announced->count; i++) {
        struct gsp_ring_dir_pair dirs;
        if (gsp_ring_dir_find_pair(announced->pids[i], GSP_RING_DIR_NO_OWNER, &dirs, NULL) < 0 ||
            dirs.at[0].live)
            continue;
        for (size_t k = 0; k < dirs.count; k++)
            while (gsp_record__is_followed(&dirs.at[k]) && gsp_now_ns() < until_ns)
                nanosleep(&pause, NULL);
    }
}

/* The drain found the rings earlier; the process may have run another program since. */
static void refresh(struct gsp_ring_dir *ring_dir)
{
    struct gsp_ring_dir_pair last;
    if (gsp_ring_dir_find_pair(ring_dir->pid, ring_dir->uid, &last, NULL) != GSP_OK)
        return;
    for (size_t i = 0; i < last.count; i++)
        if (gsp_ring_dir_is_same_process(&last.at[i], ring_dir) &&
            strcmp(last.at[i].path, ring_dir->path) == 0)
            *ring_dir = last.at[i];
}

/* Returns the process of the ith directory, if an earlier one belongs to it, or NULL. */
static struct gsp_run_process *find_process(const struct finish *finish, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (gsp_ring_dir_is_same_process(&finish->ring_dirs[k], &finish->ring_dirs[i]))
            return &finish->processes[finish->process_of[k]];
    return NULL;
}

static void add_process(struct finish *finish, size_t i)
{
    const struct gsp_ring_dir *ring_dir = &finish->ring_dirs[i];
    struct gsp_run_process *process = find_process(finish, i);
    if (!process) {
        char *cmdline = finish->cmdlines + finish->process_count * sizeof(ring_dir->cmdline);
        process = &finish->processes[finish->process_count++];
        memcpy(cmdline, ring_dir->cmdline, sizeof(ring_dir->cmdline));
        *process = (struct gsp_run_process){
            .pid = ring_dir->pid, .rank = ring_dir->rank, .name = cmdline, .cmdline = cmdline};
    }
    if (process->rank == GSP_NULL_I64)
        process->rank = ring_dir->rank;
    finish->process_of[i] = (size_t)(process - finish->processes);
}

static void list_processes(struct finish *finish)
{
    const struct gsp_ring_drain *rings = finish->opts->rings;
    size_t count = 0;
    while (gsp_record__ring_drain_dir_at(rings, count))
        count++;
    finish->processes = calloc(count + 1, sizeof(*finish->processes));
    finish->cmdlines = calloc(count + 1, sizeof(finish->ring_dirs->cmdline));
    finish->versions = calloc(count + 1, sizeof(*finish->versions));
    finish->ring_dirs = calloc(count + 1, sizeof(*finish->ring_dirs));
    finish->process_of = calloc(count + 1, sizeof(*finish->process_of));
    if (!finish->processes || !finish->cmdlines || !finish->versions || !finish->ring_dirs ||
        !finish->process_of)
        return;
    for (size_t i = 0; i < count; i++) {
        finish->ring_dirs[i] = *gsp_record__ring_drain_dir_at(rings, i);
        refresh(&finish->ring_dirs[i]);
        add_process(finish, i);
    }
    finish->ring_dir_count = count;
}

static void drain(struct finish *finish)
{
    struct gsp_store_drain_stats stats;
    struct gsp_err err = {0};
    wait_for_followers(finish->opts->announced);
    gsp_ignore(
        is_fine(finish, gsp_record__ring_drain_finish(finish->opts->rings, &stats, &err), &err));
    list_processes(finish);
    gsp_record_ring_notes_put(finish->ring_dirs, finish->ring_dir_count, &finish->result->notes);
    gsp_record__ring_drain_free(finish->opts->rings);
}

/* ---------------------------------------------------------------------------------- profile */

static const char VERSIONS_SQL[] = "SELECT pid, any_value(value) FROM gsprof.setting "
                                   "WHERE name = 'python_version' GROUP BY pid";

static int add_version(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct finish *finish = ctx;
    const struct gsp_sv text = gsp_store_row_text(row, 1);
    (void)err;
    for (size_t i = 0; i < finish->process_count; i++) {
        if (finish->processes[i].pid != gsp_store_row_i64(row, 0) || text.len >= VERSION_MAX)
            continue;
        memcpy(finish->versions[i], text.p, text.len);
        finish->processes[i].python = finish->versions[i];
    }
    return GSP_OK;
}

static int open_store(struct finish *finish, struct gsp_err *err)
{
    const struct gsp_store_options options = {.timeout_ns = -1};
    int rc = gsp_store_open(&options, &finish->store, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_run(finish->store, finish->opts->dir->handle, err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(finish->store, err);
    return rc == GSP_OK
               ? gsp_store_query_each(finish->store, VERSIONS_SQL, add_version, finish, err)
               : rc;
}

static int write_profile(struct finish *finish, struct gsp_err *err)
{
    const struct gsp_run_meta *about = &finish->opts->dir->about;
    const struct gsp_profile_source from = {.start_ns = about->start_ns,
                                            .end_ns = about->end_ns,
                                            .processes = finish->processes,
                                            .process_count = finish->process_count};
    const int rc = gsp_store_run_profile_write_files(finish->opts->dir->handle, finish->store,
                                                     &from, finish->samples, &finish->profile, err);
    if (finish->profile) {
        finish->period_ns = gsp_model_profile_meta_get(finish->profile)->period_ns;
        finish->samples = gsp_model_profile_sample_count(finish->profile);
    }
    return rc;
}

/* ----------------------------------------------------------------------------------- report */

static int write_html(const struct finish *finish, const struct gsp_report *report,
                      struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    gsp_auto_buf page = {0};
    int rc = gsp_report_write(report, GSP_REPORT_HTML, NULL, &page, err);
    if (rc == GSP_OK)
        rc = gsp_store_run_path(path, finish->opts->dir->handle, GSP_RUN_REPORT, err);
    return rc == GSP_OK ? gsp_file_put(path, true, &page, err) : rc;
}

/* Writes the verdict and report.html. */
static void write_report(struct finish *finish)
{
    struct gsp_err err = {0};
    struct gsp_report *report = NULL;
    struct gsp_profile *profile = finish->profile;
    finish->profile = NULL; /* gsp_report_open_store() frees it */
    const int rc =
        gsp_report_open_store(finish->store, profile, finish->opts->dir->path, NULL, &report, &err);
    if (!is_fine(finish, rc, &err))
        return;
    gsp_report_verdict_put(report, &finish->result->verdict, &finish->result->next);
    finish->result->failed_early = report->failed_early;
    if (!*finish->opts->interrupted)
        finish->result->has_report = is_fine(finish, write_html(finish, report, &err), &err);
    gsp_report_free(report);
}

/* ------------------------------------------------------------------------------------- end */

static void write_meta(struct finish *finish, enum gsp_run_state state)
{
    struct gsp_run_meta *about = &finish->opts->dir->about;
    struct gsp_err err = {0};
    about->state = state;
    about->processes = finish->processes;
    about->process_count = finish->process_count;
    about->samples = finish->samples;
    about->period_ns = finish->period_ns;
    const int rc = gsp_store_run_write_meta(finish->opts->dir->handle, about, true, &err);
    gsp_ignore(is_fine(finish, rc, &err));
    about->processes = NULL;
    about->process_count = 0;
}

/* The run has all their rows, and shared memory is scarce. */
static void remove_rings(const struct finish *finish)
{
    for (size_t i = 0; i < finish->ring_dir_count; i++)
        gsp_ignore(
            gsp_ring_dir_remove(&finish->ring_dirs[i], NULL)); /* fails for a running process */
}

static void set_end(const struct gsp_run_finish_opts *opts)
{
    struct gsp_run_meta *about = &opts->dir->about;
    const struct gsp_follow_result *followed = opts->followed;
    /* The wall clock may have been set meanwhile. */
    about->duration_ns = gsp_now_ns() - opts->dir->begin_ns;
    about->end_ns = about->start_ns + about->duration_ns;
    about->status = opts->status;
    about->signal = opts->status > 128 ? followed->ending.signal : GSP_NULL_I64;
    about->ending = followed->has_ended ? followed->ending.detail : NULL;
}

void gsp_record_run_finish(const struct gsp_run_finish_opts *opts,
                           struct gsp_run_finish_result *result)
{
    struct finish finish = {.opts = opts, .result = result};
    struct gsp_err err = {0};
    set_end(opts);
    finish.samples = gsp_record_ring_drain_counts(opts->rings).samples;
    drain(&finish);
    write_meta(&finish, GSP_RUN_RUNNING); /* the report reads it */
    if (is_fine(&finish, open_store(&finish, &err), &err) &&
        is_fine(&finish, write_profile(&finish, &err), &err))
        write_report(&finish);
    const bool is_complete = result->err.code == GSP_OK && result->has_report;
    write_meta(&finish, is_complete ? GSP_RUN_COMPLETE : GSP_RUN_PARTIAL);
    gsp_store_run_find_previous(opts->dir->path, opts->dir->command, result->previous);
    gsp_store_close(finish.store); /* it maps the rings */
    if (is_complete)
        remove_rings(&finish);
    gsp_model_profile_free(finish.profile);
    free(finish.processes);
    free(finish.ring_dirs);
    free(finish.process_of);
    free(finish.cmdlines);
    free(finish.versions);
}
