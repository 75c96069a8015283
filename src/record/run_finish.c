/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_finish.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/time.h"
#include "export/format.h"
#include "export/gsp_stream.h"
#include "record/ring_notes.h"
#include "report/verdict.h"
#include "report/write.h"
#include "source/run_folder.h"
#include "store/profile_read.h"
#include "store/query_each.h"
#include "store/run_list.h"
#include "wire/table.h"

/* Those who follow other processes of the run see their end within a quarter of a second. */
#define FOLLOWERS_NS (2 * GSP_NS_PER_S)
/* Bytes of "3.11.2". */
#define VERSION_MAX  32U
#define LOOK_NS      (5 * GSP_NS_PER_MS)

struct finish {
    const struct gsp_run_finish *what;
    struct gsp_run_made *made;
    struct gsp_run_process *processes;
    size_t process_count;
    struct gsp_ring_dir *places; /* of the processes */
    char *cmdlines;              /* that processes point into */
    char (*versions)[VERSION_MAX];
    struct gsp_store *store;
    struct gsp_profile *profile; /* with its samples, when they are few enough */
    uint64_t samples;
    int64_t period_ns;
};

/* The first failure is the one that is told. */
static bool is_fine(struct finish *finish, int rc, const struct gsp_err *err)
{
    if (rc < 0 && finish->made->err.code == GSP_OK)
        finish->made->err = *err;
    return rc == GSP_OK;
}

/* ------------------------------------------------------------------------------------- rows */

/* The last rows of a process are written by who follows it, a moment after its end. */
static void wait_for_followers(const struct gsp_run_told *told)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const int64_t until_ns = gsp_now_ns() + FOLLOWERS_NS;
    for (size_t i = 0; i < told->count; i++) {
        struct gsp_ring_dir place;
        if (gsp_ring_dir_find(told->pids[i], &place, NULL) < 0 || place.live)
            continue;
        while (gsp_follow_is_on(&place) && gsp_now_ns() < until_ns)
            nanosleep(&pause, NULL);
    }
}

/* As it is now: the rings were found while it may have run another program, and had fewer. */
static void look_again(struct gsp_ring_dir *place)
{
    struct gsp_ring_dir last;
    if (gsp_ring_dir_find(place->pid, &last, NULL) == GSP_OK &&
        last.start_time == place->start_time)
        *place = last;
}

static void take_processes(struct finish *finish)
{
    const struct gsp_rec_rings *rings = finish->what->rings;
    const struct gsp_ring_dir *place = NULL;
    size_t count = 0;
    while (gsp_rec_rings_place_at(rings, count))
        count++;
    finish->processes = calloc(count + 1, sizeof(*finish->processes));
    finish->cmdlines = calloc(count + 1, sizeof(place->cmdline));
    finish->versions = calloc(count + 1, sizeof(*finish->versions));
    finish->places = calloc(count + 1, sizeof(*finish->places));
    const bool has_room =
        finish->processes && finish->cmdlines && finish->versions && finish->places;
    for (size_t i = 0; has_room && i < count; i++) {
        char *cmdline = finish->cmdlines + i * sizeof(place->cmdline);
        place = gsp_rec_rings_place_at(rings, i);
        finish->places[i] = *place;
        look_again(&finish->places[i]);
        memcpy(cmdline, finish->places[i].cmdline, sizeof(place->cmdline));
        finish->processes[i] = (struct gsp_run_process){
            .pid = place->pid, .rank = place->rank, .name = cmdline, .cmdline = cmdline};
        finish->process_count = i + 1;
    }
}

static void drain(struct finish *finish)
{
    struct gsp_store_drain_stats stats;
    struct gsp_err err = {0};
    wait_for_followers(finish->what->told);
    gsp_ignore(is_fine(finish, gsp_rec_rings_finish(finish->what->rings, &stats, &err), &err));
    take_processes(finish);
    gsp_record_ring_notes(finish->places, finish->process_count, &finish->made->notes);
    gsp_rec_rings_free(finish->what->rings);
}

/* ---------------------------------------------------------------------------------- profile */

static const char VERSIONS_SQL[] = "SELECT pid, any_value(value) FROM gsprof.setting "
                                   "WHERE name = 'python_version' GROUP BY pid";

static int take_version(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
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
        rc = gsp_store_add_run(finish->store, finish->what->place->path, err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(finish->store, err);
    return rc == GSP_OK
               ? gsp_store_query_each(finish->store, VERSIONS_SQL, take_version, finish, err)
               : rc;
}

static int take_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    return gsp_export_stream_add(user, sample, err);
}

/* However many samples there are: they go to the file as they are read. */
static int stream_profile(struct finish *finish, int fd, const struct gsp_profile_source *all,
                          struct gsp_err *err)
{
    struct gsp_profile_source from = *all;
    struct gsp_profile *profile = NULL;
    struct gsp_stream *stream = NULL;
    int rc = gsp_model_profile_new(false, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_export_stream_new(fd, profile, &stream, err);
    from.take = take_sample;
    from.user = stream;
    if (rc == GSP_OK)
        rc = gsp_store_profile_read(finish->store, &from, profile, err);
    if (rc == GSP_OK) {
        rc = gsp_export_stream_finish(stream, err);
        stream = NULL;
    }
    gsp_export_stream_free(stream);
    gsp_model_profile_free(profile);
    return rc;
}

static int write_stream(struct finish *finish, const char *path,
                        const struct gsp_profile_source *from, struct gsp_err *err)
{
    struct gsp_newfile file = {.fd = -1};
    int rc = gsp_newfile_open(&file, path, true, err);
    if (rc == GSP_OK)
        rc = stream_profile(finish, file.fd, from, err);
    if (rc == GSP_OK)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}

static int save(struct finish *finish, const char *name, const char *format, struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    const int rc = gsp_store_run_path(path, finish->what->place->path, name, err);
    return rc < 0 ? rc
                  : gsp_export_format_save(path, gsp_export_format_find(format), finish->profile,
                                           NULL, true, err);
}

static int make_profile(struct finish *finish, struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    const struct gsp_run_meta *about = &finish->what->place->about;
    const struct gsp_profile_source from = {.start_ns = about->start_ns,
                                            .end_ns = about->end_ns,
                                            .processes = finish->processes,
                                            .process_count = finish->process_count};
    int rc = gsp_store_run_path(path, finish->what->place->path, GSP_RUN_PROFILE, err);
    if (rc == GSP_OK && finish->samples > GSP_RUN_JSON_SAMPLES_MAX)
        return write_stream(finish, path, &from, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_new(true, &finish->profile, err);
    if (rc == GSP_OK)
        rc = gsp_store_profile_read(finish->store, &from, finish->profile, err);
    if (rc == GSP_OK)
        rc = save(finish, GSP_RUN_PROFILE, "gsp", err);
    if (rc == GSP_OK)
        rc = save(finish, GSP_RUN_JSON, "json", err);
    return rc;
}

/* ----------------------------------------------------------------------------------- report */

static int write_page(const struct finish *finish, const struct gsp_digest *digest,
                      struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    gsp_auto_buf page = {0};
    int rc = gsp_digest_write(digest, GSP_DIGEST_HTML, NULL, &page, err);
    if (rc == GSP_OK)
        rc = gsp_store_run_path(path, finish->what->place->path, GSP_RUN_REPORT, err);
    return rc == GSP_OK ? gsp_file_put(path, true, &page, err) : rc;
}

/* The verdict, and the page with everything. */
static void make_report(struct finish *finish)
{
    struct gsp_err err = {0};
    struct gsp_digest *digest = NULL;
    struct gsp_profile *profile = finish->profile;
    finish->profile = NULL; /* taken */
    const int rc = gsp_digest_open_store(finish->store, profile, finish->what->place->path, NULL,
                                         &digest, &err);
    if (!is_fine(finish, rc, &err))
        return;
    gsp_digest_verdict_text(digest, &finish->made->verdict);
    finish->made->failed_early = digest->failed_early;
    if (!*finish->what->interrupted)
        finish->made->has_report = is_fine(finish, write_page(finish, digest, &err), &err);
    gsp_digest_free(digest);
}

/* ------------------------------------------------------------------------------------- end */

static void write_meta(struct finish *finish, enum gsp_run_state state)
{
    struct gsp_run_meta *about = &finish->what->place->about;
    struct gsp_err err = {0};
    about->state = state;
    about->processes = finish->processes;
    about->process_count = finish->process_count;
    about->samples = finish->samples;
    about->period_ns = finish->period_ns;
    const int rc = gsp_store_run_write_meta(finish->what->place->path, about, true, &err);
    gsp_ignore(is_fine(finish, rc, &err));
    about->processes = NULL;
    about->process_count = 0;
}

/* The run has all that they held, and shared memory is scarce. */
static void remove_rings(const struct finish *finish)
{
    for (size_t i = 0; i < finish->process_count; i++)
        gsp_ignore(gsp_ring_dir_remove(&finish->places[i], NULL)); /* one that still runs stays */
}

static void note_end(const struct gsp_run_finish *what)
{
    struct gsp_run_meta *about = &what->place->about;
    const struct gsp_follow_result *followed = what->followed;
    about->end_ns = gsp_realtime_ns();
    about->duration_ns = about->end_ns - about->start_ns;
    about->status = what->status;
    about->signal = what->status > 128 ? followed->ending.signal : GSP_NULL_I64;
    about->ending = followed->has_ended ? followed->ending.detail : NULL;
}

void gsp_run_finish(const struct gsp_run_finish *what, struct gsp_run_made *made)
{
    struct finish finish = {.what = what, .made = made};
    struct gsp_err err = {0};
    note_end(what);
    finish.samples = gsp_rec_rings_seen(what->rings).samples;
    drain(&finish);
    /* The report reads it. */
    write_meta(&finish, GSP_RUN_RUNNING);
    if (is_fine(&finish, open_store(&finish, &err), &err) &&
        is_fine(&finish, make_profile(&finish, &err), &err)) {
        if (finish.profile) {
            finish.period_ns = gsp_model_profile_meta_get(finish.profile)->period_ns;
            finish.samples = gsp_model_profile_sample_count(finish.profile);
        }
        make_report(&finish);
    }
    const bool is_whole = made->err.code == GSP_OK && made->has_report;
    write_meta(&finish, is_whole ? GSP_RUN_COMPLETE : GSP_RUN_PARTIAL);
    gsp_store_run_find_previous(what->place->path, what->place->command, made->former);
    gsp_store_close(finish.store);
    if (is_whole)
        remove_rings(&finish); /* no reader of our own holds them any more */
    gsp_model_profile_free(finish.profile);
    free(finish.processes);
    free(finish.places);
    free(finish.cmdlines);
    free(finish.versions);
}
