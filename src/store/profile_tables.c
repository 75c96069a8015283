/* SPDX-License-Identifier: Apache-2.0 */
#include "store/profile_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "model/format.h"
#include "model/ids.h"
#include "wire/table.h"

/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(GSP_ID_NONE == GSP_NULL_I64, "rows store stack ids and ranks");

/* Values that all rows of a thread share. */
struct thread_row {
    int64_t pid;
    int64_t rank;
    int64_t thread_id;
    uint32_t name; /* string id in the current batch */
};

struct maker {
    const struct gsp_profile *profile;
    const char *host;
    const struct gsp_batch_sink *sink;
    int64_t *stack_ids;
    struct thread_row *threads;
    unsigned char *used; /* by stack number: a sample refers to it */
    struct gsp_batch *batch;
};

static void maker_clear(struct maker *maker)
{
    free(maker->stack_ids);
    free(maker->threads);
    free(maker->used);
    gsp_store_batch_free(maker->batch);
}

static int new_batch(struct maker *maker, enum gsp_table_id table, struct gsp_err *err)
{
    return gsp_store_batch_new(gsp_wire_table_at(table), maker->host, GSP_NULL_I64, GSP_NULL_I64,
                               &maker->batch, err);
}

static int emit_batch(struct maker *maker, struct gsp_err *err)
{
    struct gsp_batch *batch = maker->batch;
    maker->batch = NULL;
    return maker->sink->take(maker->sink->ctx, batch, err);
}

static uint32_t intern(struct gsp_batch *batch, struct gsp_sv text)
{
    return text.len ? gsp_store_batch_intern(batch, text) : GSP_NULL_STR;
}

static int read_threads(struct maker *maker, struct gsp_err *err)
{
    const size_t count = gsp_model_profile_thread_count(maker->profile);
    maker->threads = calloc(count + 1, sizeof(*maker->threads));
    if (!maker->threads)
        return gsp_err_nomem(err);
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(maker->profile, i);
        const struct gsp_process *process =
            gsp_model_profile_process_at(maker->profile, thread->process);
        struct thread_row *row = &maker->threads[i];
        const uint64_t id = thread->os_id ? thread->os_id : thread->python_id;
        row->thread_id = id ? (int64_t)(id & INT64_MAX) : GSP_NULL_I64;
        row->pid = process && process->pid > 0 ? process->pid : GSP_NULL_I64;
        row->rank =
            process
                ? gsp_model_rank_of_name(gsp_model_profile_string_at(maker->profile, process->name))
                : GSP_NULL_I64;
    }
    return GSP_OK;
}

/* Starts a batch of samples; adds the names of all threads to its dictionary. */
static int new_sample_batch(struct maker *maker, struct gsp_err *err)
{
    int rc = new_batch(maker, GSP_TABLE_python_stack_sample, err);
    if (rc < 0)
        return rc;
    const size_t count = gsp_model_profile_thread_count(maker->profile);
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(maker->profile, i);
        maker->threads[i].name =
            intern(maker->batch, gsp_model_profile_string_at(maker->profile, thread->name));
    }
    return GSP_OK;
}

static int put_sample(struct maker *maker, uint32_t thread, uint32_t stack,
                      struct gsp_row_python_stack_sample *row, struct gsp_err *err)
{
    const struct thread_row *shared = &maker->threads[thread];
    row->mono_ns = GSP_NULL_I64;
    row->pid = shared->pid;
    row->rank = shared->rank;
    row->thread_id = shared->thread_id;
    row->thread_name = shared->name;
    row->stack_id = maker->stack_ids[stack];
    maker->used[stack] = 1;
    return gsp_store_batch_append(maker->batch, row, err);
}

static int put_samples(struct maker *maker, struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(maker->profile);
    const size_t rows_max = maker->sink->rows_max ? maker->sink->rows_max : SIZE_MAX;
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, maker->profile);
    int rc = new_sample_batch(maker, err);
    while (rc == GSP_OK && gsp_model_sample_iter_next(&iter, &sample)) {
        struct gsp_row_python_stack_sample row = {.ts_ns = meta->start_ns + sample.time_ns,
                                                  .on_cpu = (sample.flags & GSP_SAMPLE_ON_CPU) != 0,
                                                  .has_gil =
                                                      (sample.flags & GSP_SAMPLE_HAS_GIL) != 0,
                                                  .weight_ns = sample.weight};
        rc = put_sample(maker, sample.thread, sample.stack, &row, err);
        if (rc == GSP_OK && gsp_store__batch_rows(maker->batch) >= rows_max) {
            rc = emit_batch(maker, err);
            if (rc == GSP_OK)
                rc = new_sample_batch(maker, err);
        }
    }
    return rc == GSP_OK ? emit_batch(maker, err) : rc;
}

static int put_totals(struct maker *maker, struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(maker->profile);
    const size_t count = gsp_model_profile_total_count(maker->profile);
    int rc = new_sample_batch(maker, err);
    for (size_t i = 0; rc == GSP_OK && i < count; i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(maker->profile, i);
        struct gsp_row_python_stack_sample row = {.ts_ns = meta->start_ns ? meta->start_ns
                                                                          : GSP_NULL_I64,
                                                  .on_cpu = GSP_NULL_BOOL,
                                                  .has_gil = GSP_NULL_BOOL,
                                                  .weight_ns = total->weight};
        rc = put_sample(maker, total->thread, total->stack, &row, err);
    }
    return rc == GSP_OK ? emit_batch(maker, err) : rc;
}

static int put_frames(const struct gsp_profile *profile, uint32_t stack, int64_t id,
                      struct gsp_batch *batch, struct gsp_err *err)
{
    struct gsp_row_python_stack row = {.stack_id = id};
    for (uint32_t at = stack; at != GSP_NONE; at = gsp_model_profile_stack_caller(profile, at)) {
        const struct gsp_frame *frame =
            gsp_model_profile_frame_at(profile, gsp_model_profile_stack_frame(profile, at));
        if (!frame)
            break;
        row.func = intern(batch, gsp_model_profile_string_at(profile, frame->name));
        row.file = intern(batch, gsp_model_profile_string_at(profile, frame->file));
        row.lineno = frame->line ? (int64_t)frame->line : GSP_NULL_I64;
        row.frame_type = intern(batch, gsp_sv_of(gsp_model_frame_type_name(frame->kind)));
        int rc = gsp_store_batch_append(batch, &row, err);
        if (rc < 0)
            return rc;
        row.depth++;
    }
    return GSP_OK;
}

/* Stacks that differ only in what python.stack does not show have the same id: add them once. */
int gsp_store_stack_rows_add(const struct gsp_profile *profile, const int64_t *ids,
                             const unsigned char *used, struct gsp_batch *batch,
                             struct gsp_err *err)
{
    const size_t count = gsp_model_profile_stack_count(profile);
    struct gsp_hmap seen = {0};
    int rc = GSP_OK;
    for (uint32_t i = 1; rc == GSP_OK && i <= count; i++) {
        const uint64_t id = (uint64_t)ids[i];
        if (!used[i] || gsp_hmap_get(&seen, id, 0))
            continue;
        rc = gsp_hmap_put(&seen, id, 0, i) ? put_frames(profile, i, ids[i], batch, err)
                                           : gsp_err_nomem(err);
    }
    gsp_hmap_free(&seen);
    return rc;
}

static int put_stacks(struct maker *maker, struct gsp_err *err)
{
    int rc = new_batch(maker, GSP_TABLE_python_stack, err);
    if (rc == GSP_OK)
        rc = gsp_store_stack_rows_add(maker->profile, maker->stack_ids, maker->used, maker->batch,
                                      err);
    return rc == GSP_OK ? emit_batch(maker, err) : rc;
}

static int put_losses(struct maker *maker, struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(maker->profile);
    uint64_t count = 0;
    const char *cause = NULL;
    int rc = new_batch(maker, GSP_TABLE_gsprof_loss, err);
    for (size_t i = 0; rc == GSP_OK && (cause = gsp_model_loss_at(&meta->losses, i, &count)); i++) {
        if (count == 0)
            continue;
        const struct gsp_row_gsprof_loss row = {
            .ts_ns = meta->start_ns ? meta->start_ns + meta->duration_ns : GSP_NULL_I64,
            .mono_ns = GSP_NULL_I64,
            .pid = GSP_NULL_I64,
            .rank = GSP_NULL_I64,
            .source = gsp_store_batch_intern(maker->batch, gsp_sv_of("sampler")),
            .cause = gsp_store_batch_intern(maker->batch, gsp_sv_of(cause)),
            .count = (int64_t)(count & INT64_MAX)};
        rc = gsp_store_batch_append(maker->batch, &row, err);
    }
    return rc == GSP_OK ? emit_batch(maker, err) : rc;
}

int gsp_store__profile_write(const struct gsp_profile *profile, const char *host,
                             const struct gsp_batch_sink *sink, struct gsp_err *err)
{
    struct maker maker = {.profile = profile, .host = host, .sink = sink};
    maker.used = calloc(gsp_model_profile_stack_count(profile) + 1, 1);
    int rc = maker.used ? gsp_model_stack_ids(profile, &maker.stack_ids, err) : gsp_err_nomem(err);
    if (rc == GSP_OK)
        rc = read_threads(&maker, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_has_samples(profile) ? put_samples(&maker, err)
                                                    : put_totals(&maker, err);
    if (rc == GSP_OK)
        rc = put_stacks(&maker, err);
    if (rc == GSP_OK)
        rc = put_losses(&maker, err);
    maker_clear(&maker);
    return rc;
}

static int add_to_store(void *ctx, struct gsp_batch *batch, struct gsp_err *err)
{
    return gsp_store_add_batch(ctx, batch, err);
}

int gsp_store_add_profile(struct gsp_store *store, const struct gsp_profile *profile,
                          struct gsp_err *err)
{
    const struct gsp_batch_sink sink = {.take = add_to_store, .ctx = store};
    return gsp_store__profile_write(profile, NULL, &sink, err);
}
