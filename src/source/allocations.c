/* SPDX-License-Identifier: Apache-2.0 */
#include "source/allocations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/time.h"
#include "memlog/table.h"
#include "model/ids.h"
#include "store/profile_tables.h"
#include "wire/table.h"

/* Snapshots of a recording are merged so that they have at most this many changes. */
#define CHANGES_MAX 1000000U

enum kind { KIND_ALLOC, KIND_FREE, KIND_LIVE, KIND_PEAK, KINDS };

static const char *const KIND_NAMES[KINDS] = {"alloc", "free", "live", "peak"};

static int append(struct gsp_batch *batch, struct gsp_row_python_allocation *row, enum kind kind,
                  uint64_t bytes, uint64_t count, struct gsp_err *err)
{
    row->kind = gsp_store_batch_intern(batch, gsp_sv_of(KIND_NAMES[kind]));
    row->bytes = (int64_t)(bytes & INT64_MAX);
    row->count = (int64_t)(count & INT64_MAX);
    return gsp_store_batch_append(batch, row, err);
}

/* ------------------------------------------------------------------------------------- process */

struct copy {
    struct gsp_memlog_table *table;
    struct gsp_profile *profile;
    struct gsp_memlog_stacks stacks;
    int64_t *ids;
};

static void copy_free(struct copy *copy)
{
    gsp_memlog_table_close(copy->table);
    gsp_memlog_stacks_free(&copy->stacks);
    gsp_model_profile_free(copy->profile);
    free(copy->ids);
}

static int copy_counters(struct copy *copy, const struct gsp_ring_dir *dir, struct gsp_err *err)
{
    int folder = -1;
    const struct gsp_process process = {.pid = dir->pid, .ppid = -1};
    copy->stacks = GSP_MEMSTACKS_NONE;
    int rc = gsp_ring_dir_open(dir, &folder, err);
    if (rc < 0)
        return rc;
    rc = gsp_memlog_table_open(folder, &copy->table, err);
    gsp_fd_close(&folder);
    if (rc == GSP_OK)
        rc = gsp_memlog_table_copy(copy->table, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_new(false, &copy->profile, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_process(copy->profile, &process, &copy->stacks.process, err);
    if (rc == GSP_OK)
        rc = gsp_memlog_stacks_grow(&copy->stacks, copy->table, copy->profile, err);
    if (rc == GSP_OK)
        rc = gsp_model_stack_ids(copy->profile, &copy->ids, err);
    return rc;
}

static int put_sites(const struct copy *copy, const struct gsp_ring_dir *dir,
                     struct gsp_batch *batch, struct gsp_err *err)
{
    struct gsp_row_python_allocation row = {
        .ts_ns = gsp_realtime_ns(), .mono_ns = gsp_now_ns(), .pid = dir->pid, .rank = dir->rank};
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < gsp_memlog_table_site_count(copy->table); i++) {
        const struct gsp_memlog_site_counts *site = gsp_memlog_table_site(copy->table, i);
        const struct gsp_memlog_count *count = &site->count;
        uint32_t thread = 0;
        uint32_t stack = 0;
        gsp_memlog_stacks_at(&copy->stacks, site->node, &thread, &stack);
        row.stack_id = copy->ids[stack];
        row.allocator = gsp_store_batch_intern(
            batch, gsp_sv_of(gsp_wire_memory_allocator_name(site->allocator)));
        rc = append(batch, &row, KIND_ALLOC, count->alloc_bytes, count->alloc_count, err);
        if (rc == GSP_OK)
            rc = append(batch, &row, KIND_FREE, count->free_bytes, count->free_count, err);
        if (rc == GSP_OK)
            rc = append(batch, &row, KIND_LIVE, gsp_memlog_count_live(count),
                        count->alloc_count - count->free_count, err);
        if (rc == GSP_OK && count->peak_bytes > 0)
            rc = append(batch, &row, KIND_PEAK, count->peak_bytes, count->peak_count, err);
    }
    return rc;
}

/* Appends the stacks of sites, not those of their callers. */
static int put_stacks(const struct copy *copy, struct gsp_batch *batch, struct gsp_err *err)
{
    unsigned char *used = calloc(gsp_model_profile_stack_count(copy->profile) + 1, 1);
    if (!used)
        return gsp_err_nomem(err);
    for (size_t i = 0; i < gsp_memlog_table_site_count(copy->table); i++) {
        uint32_t thread = 0;
        uint32_t stack = 0;
        gsp_memlog_stacks_at(&copy->stacks, gsp_memlog_table_site(copy->table, i)->node, &thread,
                             &stack);
        used[stack] = 1;
    }
    int rc = gsp_store_stack_rows_add(copy->profile, copy->ids, used, batch, err);
    free(used);
    return rc;
}

int gsp_source_allocations_fill(void *dir, struct gsp_batch *batch, struct gsp_err *err)
{
    struct copy copy = {0};
    int rc = copy_counters(&copy, dir, err);
    if (rc == GSP_OK && gsp_store_batch_table(batch) == gsp_wire_table_at(GSP_TABLE_python_stack))
        rc = put_stacks(&copy, batch, err);
    else if (rc == GSP_OK)
        rc = put_sites(&copy, dir, batch, err);
    copy_free(&copy);
    return rc == GSP_E_NOFILE ? GSP_OK : rc;
}

static bool has_counters(const struct gsp_ring_dir *dir)
{
    struct gsp_memlog_table *table = NULL;
    int folder = -1;
    if (gsp_ring_dir_open(dir, &folder, NULL) < 0)
        return false;
    const bool has = gsp_memlog_table_open(folder, &table, NULL) == GSP_OK;
    gsp_memlog_table_close(table);
    gsp_fd_close(&folder);
    return has;
}

int gsp_source__allocations_add(struct gsp_store *store, struct gsp_ring_dir *dir,
                                struct gsp_err *err)
{
    if (!has_counters(dir))
        return GSP_OK;
    int rc = gsp_store_add_live(store, gsp_wire_table_at(GSP_TABLE_python_allocation),
                                gsp_source_allocations_fill, dir, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_live(store, gsp_wire_table_at(GSP_TABLE_python_stack),
                                gsp_source_allocations_fill, dir, err);
    return rc;
}

/* ----------------------------------------------------------------------------------- recording */

struct log_rows {
    const struct gsp_memlog *log;
    int64_t *ids;                     /* stack ids */
    struct gsp_memlog_count *written; /* by site: sum of the rows so far */
    struct gsp_batch *batch;
};

static int put_site(struct log_rows *rows, size_t i, const struct gsp_memlog_count *now,
                    struct gsp_row_python_allocation *row, struct gsp_err *err)
{
    struct gsp_memlog_count *written = &rows->written[i];
    const struct gsp_memlog_site *site = gsp_memlog_site(rows->log, i);
    const uint64_t allocated = now->alloc_bytes - written->alloc_bytes;
    const uint64_t freed = now->free_bytes - written->free_bytes;
    int rc = GSP_OK;
    row->stack_id = rows->ids[site->stack];
    row->allocator = gsp_store_batch_intern(
        rows->batch, gsp_sv_of(gsp_wire_memory_allocator_name(site->allocator)));
    if (allocated)
        rc = append(rows->batch, row, KIND_ALLOC, allocated,
                    now->alloc_count - written->alloc_count, err);
    if (rc == GSP_OK && freed)
        rc = append(rows->batch, row, KIND_FREE, freed, now->free_count - written->free_count, err);
    if (rc == GSP_OK && (allocated || freed))
        rc = append(rows->batch, row, KIND_LIVE, gsp_memlog_count_live(now),
                    now->alloc_count - now->free_count, err);
    *written = *now;
    return rc;
}

static int put_tick(struct log_rows *rows, const struct gsp_memlog_tick *tick,
                    const struct gsp_memlog_count *counts, struct gsp_err *err)
{
    const struct gsp_process *process =
        gsp_model_profile_process_at(gsp_memlog_profile(rows->log), tick->process);
    struct gsp_row_python_allocation row = {.ts_ns = gsp_memlog_meta(rows->log)->start_ns +
                                                     tick->time_ns,
                                            .mono_ns = GSP_NULL_I64,
                                            .pid = process->pid,
                                            .rank = GSP_NULL_I64};
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < gsp_memlog_site_count(rows->log); i++)
        if (gsp_memlog_site(rows->log, i)->process == tick->process)
            rc = put_site(rows, i, &counts[i], &row, err);
    return rc;
}

/* Appends the rows of every nth snapshot of a process, and of its last one. */
static int put_ticks(struct log_rows *rows, struct gsp_err *err)
{
    struct gsp_memlog_replay replay;
    uint64_t changes = 0;
    for (size_t i = 0; i < gsp_memlog_tick_count(rows->log); i++)
        changes += gsp_memlog_tick(rows->log, i)->change_count;
    const size_t every = (size_t)(changes / CHANGES_MAX) + 1;
    int rc = gsp_memlog_replay_begin(&replay, rows->log, err);
    const struct gsp_memlog_tick *tick;
    while (rc == GSP_OK && (tick = gsp_memlog_replay_next(&replay))) {
        const bool is_last = tick->is_final ||
                             tick->time_ns == gsp_memlog_process(rows->log, tick->process)->last_ns;
        if (!tick->is_gone && (is_last || replay.next % every == 0))
            rc = put_tick(rows, tick, replay.counts, err);
    }
    if (rc == GSP_OK && replay.next < gsp_memlog_tick_count(rows->log))
        rc = gsp_err_nomem(err);
    gsp_memlog_replay_end(&replay);
    return rc;
}

static int add_allocations(struct log_rows *rows, struct gsp_store *store, struct gsp_err *err)
{
    rows->written = calloc(gsp_memlog_site_count(rows->log) + 1, sizeof(*rows->written));
    int rc = rows->written ? gsp_model_stack_ids(gsp_memlog_profile(rows->log), &rows->ids, err)
                           : gsp_err_nomem(err);
    if (rc == GSP_OK)
        rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_python_allocation), NULL, GSP_NULL_I64,
                                 GSP_NULL_I64, &rows->batch, err);
    if (rc == GSP_OK)
        rc = put_ticks(rows, err);
    if (rc < 0) {
        gsp_store_batch_free(rows->batch);
        return rc;
    }
    return gsp_store_add_batch(store, rows->batch, err);
}

static int add_stacks(const struct log_rows *rows, struct gsp_store *store, struct gsp_err *err)
{
    const struct gsp_profile *profile = gsp_memlog_profile(rows->log);
    struct gsp_batch *batch = NULL;
    unsigned char *used = calloc(gsp_model_profile_stack_count(profile) + 1, 1);
    for (size_t i = 0; used && i < gsp_memlog_site_count(rows->log); i++)
        used[gsp_memlog_site(rows->log, i)->stack] = 1;
    int rc = used ? gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_python_stack), NULL,
                                        GSP_NULL_I64, GSP_NULL_I64, &batch, err)
                  : gsp_err_nomem(err);
    if (rc == GSP_OK)
        rc = gsp_store_stack_rows_add(profile, rows->ids, used, batch, err);
    free(used);
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    return gsp_store_add_batch(store, batch, err);
}

static int put_metrics(const struct gsp_memlog *log, struct gsp_batch *batch, struct gsp_err *err)
{
    const struct gsp_profile *profile = gsp_memlog_profile(log);
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < gsp_memlog_tick_count(log); i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_tick(log, i);
        const struct gsp_process *process = gsp_model_profile_process_at(profile, tick->process);
        if (tick->total[GSP_MEMTOTAL_RSS] == GSP_MEMLOG_UNKNOWN)
            continue;
        const struct gsp_row_process_metrics row = {
            .ts_ns = gsp_memlog_meta(log)->start_ns + tick->time_ns,
            .mono_ns = GSP_NULL_I64,
            .pid = process->pid,
            .rank = GSP_NULL_I64,
            .name = gsp_store_batch_intern(batch,
                                           gsp_model_profile_string_at(profile, process->cmdline)),
            .cpu_percent = (double)NAN,
            .user_s = (double)NAN,
            .system_s = (double)NAN,
            .rss_bytes = tick->total[GSP_MEMTOTAL_RSS],
            .vms_bytes = GSP_NULL_I64,
            .swap_bytes = GSP_NULL_I64,
            .pss_bytes = GSP_NULL_I64,
            .threads = GSP_NULL_I64,
            .read_bytes = GSP_NULL_I64,
            .write_bytes = GSP_NULL_I64,
            .minor_faults = GSP_NULL_I64,
            .major_faults = GSP_NULL_I64,
            .ctx_switches = GSP_NULL_I64,
            .state = GSP_NULL_STR};
        rc = gsp_store_batch_append(batch, &row, err);
    }
    return rc;
}

static int add_metrics(const struct gsp_memlog *log, struct gsp_store *store, struct gsp_err *err)
{
    struct gsp_batch *batch = NULL;
    int rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_process_metrics), NULL, GSP_NULL_I64,
                                 GSP_NULL_I64, &batch, err);
    if (rc == GSP_OK)
        rc = put_metrics(log, batch, err);
    if (rc < 0) {
        gsp_store_batch_free(batch);
        return rc;
    }
    return gsp_store_add_batch(store, batch, err);
}

int gsp_source__memory_recording_add(struct gsp_store *store, const struct gsp_memlog *log,
                                     struct gsp_err *err)
{
    struct log_rows rows = {.log = log};
    int rc = add_allocations(&rows, store, err);
    if (rc == GSP_OK)
        rc = add_stacks(&rows, store, err);
    if (rc == GSP_OK)
        rc = add_metrics(log, store, err);
    free(rows.ids);
    free(rows.written);
    return rc;
}
