/* SPDX-License-Identifier: Apache-2.0 */
#include "store/profile_read.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/title.h"
#include "model/ids.h"
#include "store/query_each.h"
#include "wire/table.h"

/* Replaces a stack whose frames were overwritten before they were saved. */
#define LOST_NAME "(frames not kept)"

/* Stacks that only allocations refer to do not belong to the profile. */
static const char STACKS_SQL[] =
    "SELECT stack_id, func, file, lineno, frame_type FROM python.stack "
    "WHERE stack_id IN (SELECT stack_id FROM python.stack_sample) ORDER BY stack_id, depth DESC";
static const char SAMPLES_SQL[] =
    "SELECT ts_ns::BIGINT, pid, thread_id, stack_id, weight_ns, rank, on_cpu, has_gil "
    "FROM python.stack_sample WHERE ts_ns IS NOT NULL ORDER BY ts_ns, pid, thread_id";
static const char FACTS_SQL[] =
    "SELECT (SELECT min(ts_ns)::BIGINT FROM python.stack_sample), "
    "(SELECT max(ts_ns)::BIGINT FROM python.stack_sample), "
    "(SELECT round(1e9 * arg_max(period_s, ts_ns))::BIGINT FROM gsprof.sampler), "
    "(SELECT sum(n)::BIGINT FROM (SELECT max(looks) AS n FROM gsprof.sampler GROUP BY pid))";
static const char LOSSES_SQL[] = "SELECT cause, sum(\"count\")::BIGINT FROM gsprof.loss "
                                 "WHERE source = 'sampler' GROUP BY cause";
static const char NAMES_SQL[] = "SELECT pid, arg_max(name, ts_ns) FROM process.metrics "
                                "WHERE name IS NOT NULL GROUP BY pid";
/* The last name: the first samples have the kernel's name, later ones the program's. */
static const char THREADS_SQL[] =
    "SELECT pid, thread_id, arg_max(thread_name, ts_ns) FROM python.stack_sample "
    "WHERE thread_name IS NOT NULL GROUP BY pid, thread_id";

struct reader {
    const struct gsp_profile_source *from;
    struct gsp_profile *profile;
    struct gsp_hmap stacks;       /* stack_id -> the profile's stack */
    struct gsp_hmap threads;      /* (pid, thread id) -> index */
    struct gsp_hmap processes;    /* pid -> index */
    struct gsp_hmap names;        /* pid -> string */
    struct gsp_hmap thread_names; /* (pid, thread id) -> string */
    int64_t stack_id;             /* stack whose frames are being read */
    uint32_t stack;               /* the frames read so far */
    uint32_t lost;                /* the stack LOST_NAME; GSP_NONE: not added yet */
    int64_t start_ns;
};

static int put(struct gsp_hmap *map, uint64_t a, uint64_t b, uint32_t value, struct gsp_err *err)
{
    return gsp_hmap_put(map, a, b, value) ? GSP_OK : gsp_err_nomem(err);
}

/* ------------------------------------------------------------------------------------ facts */

static int read_facts(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct reader *reader = ctx;
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(reader->profile);
    (void)err;
    const int64_t first_ns = gsp_store_row_i64(row, 0);
    const int64_t last_ns = gsp_store_row_i64(row, 1);
    const int64_t period_ns = gsp_store_row_i64(row, 2);
    const int64_t ticks = gsp_store_row_i64(row, 3);
    reader->start_ns = reader->from->start_ns;
    if (reader->start_ns <= 0 && first_ns != GSP_NULL_I64)
        reader->start_ns = first_ns;
    const int64_t end_ns = reader->from->end_ns > 0 ? reader->from->end_ns : last_ns;
    meta->unit = GSP_UNIT_NS;
    meta->start_ns = reader->start_ns;
    if (end_ns != GSP_NULL_I64 && end_ns > reader->start_ns)
        meta->duration_ns = end_ns - reader->start_ns;
    meta->period_ns = period_ns > 0 ? period_ns : 0;
    meta->ticks = ticks > 0 ? (uint64_t)ticks : 0;
    return GSP_OK;
}

static int read_loss(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct reader *reader = ctx;
    struct gsp_losses *losses = &gsp_model_profile_meta(reader->profile)->losses;
    const struct {
        const char *cause;
        uint64_t *count;
    } known[] = {{"torn", &losses->torn}, {"late", &losses->late}, {"failed", &losses->failed}};
    const int64_t count = gsp_store_row_i64(row, 1);
    (void)err;
    for (size_t i = 0; count > 0 && i < GSP_COUNT(known); i++)
        if (gsp_sv_eq(gsp_store_row_text(row, 0), gsp_sv_of(known[i].cause)))
            *known[i].count += (uint64_t)count;
    return GSP_OK;
}

static int read_name(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct reader *reader = ctx;
    uint32_t name = GSP_NONE;
    const int rc =
        gsp_model_profile_string(reader->profile, gsp_store_row_text(row, 1), &name, err);
    return rc == GSP_OK ? put(&reader->names, (uint64_t)gsp_store_row_i64(row, 0), 0, name, err)
                        : rc;
}

static int read_thread_name(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct reader *reader = ctx;
    uint32_t name = GSP_NONE;
    const int rc =
        gsp_model_profile_string(reader->profile, gsp_store_row_text(row, 2), &name, err);
    return rc == GSP_OK ? put(&reader->thread_names, (uint64_t)gsp_store_row_i64(row, 0),
                              (uint64_t)gsp_store_row_i64(row, 1), name, err)
                        : rc;
}

/* ----------------------------------------------------------------------------------- stacks */

/* Rows are ordered by stack, each stack from its root. */
static int read_frame(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct reader *reader = ctx;
    const int64_t id = gsp_store_row_i64(row, 0);
    const int64_t line = gsp_store_row_i64(row, 3);
    struct gsp_frame frame = {.kind = gsp_model_frame_type_find(gsp_store_row_text(row, 4)),
                              .line = line > 0 && line <= INT32_MAX ? (uint32_t)line : 0};
    uint32_t at = GSP_NONE;
    if (id == GSP_NULL_I64)
        return GSP_OK;
    if (id != reader->stack_id)
        reader->stack = GSP_NONE;
    reader->stack_id = id;
    int rc =
        gsp_model_profile_string(reader->profile, gsp_store_row_text(row, 1), &frame.name, err);
    if (rc == GSP_OK)
        rc =
            gsp_model_profile_string(reader->profile, gsp_store_row_text(row, 2), &frame.file, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_frame(reader->profile, &frame, &at, err);
    if (rc == GSP_OK &&
        gsp_model_profile_stack_depth(reader->profile, reader->stack) < GSP_STACK_DEPTH_MAX)
        rc = gsp_model_profile_stack(reader->profile, reader->stack, at, &reader->stack, err);
    return rc == GSP_OK ? put(&reader->stacks, (uint64_t)id, 0, reader->stack, err) : rc;
}

static int find_stack(struct reader *reader, int64_t id, uint32_t *out, struct gsp_err *err)
{
    const uint32_t *known = gsp_hmap_get(&reader->stacks, (uint64_t)id, 0);
    *out = GSP_NONE;
    if (id == GSP_NULL_I64)
        return GSP_OK;
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_frame frame = {.kind = GSP_FRAME_MARK};
    uint32_t at = GSP_NONE;
    int rc = GSP_OK;
    if (reader->lost == GSP_NONE) {
        rc = gsp_model_profile_string(reader->profile, gsp_sv_of(LOST_NAME), &frame.name, err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(reader->profile, &frame, &at, err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_stack(reader->profile, GSP_NONE, at, &reader->lost, err);
    }
    *out = reader->lost;
    return rc;
}

/* ---------------------------------------------------------------------------------- samples */

static const struct gsp_run_process *process_of_run(const struct reader *reader, int64_t pid)
{
    for (size_t i = 0; i < reader->from->process_count; i++)
        if (reader->from->processes[i].pid == pid)
            return &reader->from->processes[i];
    return NULL;
}

/* The last name of the process, in the format that live processes have. */
static void put_title(const struct reader *reader, const struct gsp_run_process *about, int64_t pid,
                      struct gsp_buf *out)
{
    const uint32_t *named = gsp_hmap_get(&reader->names, (uint64_t)pid, 0);
    const struct gsp_sv name =
        named ? gsp_model_profile_string_at(reader->profile, *named) : (struct gsp_sv){0};
    if (about && about->cmdline) {
        const struct gsp_sv cmdline = gsp_sv_of(about->cmdline);
        gsp_title_put_own(name, (struct gsp_sv){0}, cmdline, out);
        gsp_title_put_command(cmdline, out);
    } else {
        gsp_buf_putsv(out, named ? name : gsp_sv_of("process"));
    }
}

static int find_process(struct reader *reader, int64_t pid, int64_t rank, uint32_t *out,
                        struct gsp_err *err)
{
    const uint32_t *known = gsp_hmap_get(&reader->processes, (uint64_t)pid, 0);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    const struct gsp_run_process *about = process_of_run(reader, pid);
    struct gsp_process process = {.pid = pid > 0 && pid <= INT32_MAX ? (int32_t)pid : 0,
                                  .ppid = -1};
    gsp_auto_buf name = {0};
    int rc = GSP_OK;
    /* The same prefix as in a recording of several ranks. */
    if (rank != GSP_NULL_I64)
        gsp_buf_printf(&name, "rank %lld: ", (long long)rank);
    put_title(reader, about, pid, &name);
    rc = gsp_model_profile_string(reader->profile, gsp_buf_sv(&name), &process.name, err);
    if (rc == GSP_OK && about)
        rc = gsp_model_profile_string(reader->profile, gsp_sv_of(about->cmdline), &process.cmdline,
                                      err);
    if (rc == GSP_OK && about)
        rc = gsp_model_profile_string(reader->profile, gsp_sv_of(about->python), &process.version,
                                      err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_process(reader->profile, &process, out, err);
    return rc == GSP_OK ? put(&reader->processes, (uint64_t)pid, 0, *out, err) : rc;
}

static int find_thread(struct reader *reader, const struct gsp_store_row *row, uint32_t *out,
                       struct gsp_err *err)
{
    const int64_t pid = gsp_store_row_i64(row, 1);
    const int64_t tid = gsp_store_row_i64(row, 2);
    const uint32_t *known = gsp_hmap_get(&reader->threads, (uint64_t)pid, (uint64_t)tid);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_thread thread = {.os_id = tid > 0 ? (uint64_t)tid : 0, .is_main = tid == pid};
    int rc = find_process(reader, pid, gsp_store_row_i64(row, 5), &thread.process, err);
    const uint32_t *name = gsp_hmap_get(&reader->thread_names, (uint64_t)pid, (uint64_t)tid);
    thread.name = name ? *name : GSP_NONE;
    if (rc == GSP_OK)
        rc = gsp_model_profile_thread(reader->profile, &thread, out, err);
    return rc == GSP_OK ? put(&reader->threads, (uint64_t)pid, (uint64_t)tid, *out, err) : rc;
}

static int read_sample(void *ctx, const struct gsp_store_row *row, struct gsp_err *err)
{
    struct reader *reader = ctx;
    const int64_t weight = gsp_store_row_i64(row, 4);
    struct gsp_sample sample = {.time_ns = gsp_store_row_i64(row, 0) - reader->start_ns,
                                .weight = weight > 0 ? weight : 0,
                                .flags = (gsp_store_row_i64(row, 6) == 1 ? GSP_SAMPLE_ON_CPU : 0) |
                                         (gsp_store_row_i64(row, 7) == 1 ? GSP_SAMPLE_HAS_GIL : 0)};
    int rc = find_thread(reader, row, &sample.thread, err);
    if (rc == GSP_OK)
        rc = find_stack(reader, gsp_store_row_i64(row, 3), &sample.stack, err);
    if (rc < 0)
        return rc;
    return reader->from->take ? reader->from->take(reader->from->user, &sample, err)
                              : gsp_model_profile_add(reader->profile, &sample, err);
}

int gsp_store__profile_read(struct gsp_store *store, const struct gsp_profile_source *from,
                            struct gsp_profile *profile, struct gsp_err *err)
{
    struct reader reader = {.from = from, .profile = profile, .stack_id = GSP_NULL_I64};
    int rc = gsp_store_query_each(store, FACTS_SQL, read_facts, &reader, err);
    if (rc == GSP_OK)
        rc = gsp_store_query_each(store, LOSSES_SQL, read_loss, &reader, err);
    if (rc == GSP_OK)
        rc = gsp_store_query_each(store, NAMES_SQL, read_name, &reader, err);
    if (rc == GSP_OK)
        rc = gsp_store_query_each(store, THREADS_SQL, read_thread_name, &reader, err);
    if (rc == GSP_OK)
        rc = gsp_store_query_each(store, STACKS_SQL, read_frame, &reader, err);
    if (rc == GSP_OK)
        rc = gsp_store_query_each(store, SAMPLES_SQL, read_sample, &reader, err);
    gsp_hmap_free(&reader.stacks);
    gsp_hmap_free(&reader.threads);
    gsp_hmap_free(&reader.processes);
    gsp_hmap_free(&reader.names);
    gsp_hmap_free(&reader.thread_names);
    return rc;
}
