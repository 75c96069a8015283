/* SPDX-License-Identifier: Apache-2.0 */
#include "source/backtraces.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/time.h"
#include "proc/task.h"
#include "sample/dump.h"
#include "wire/table.h"

void gsp_source_backtrace_put_locals(const struct gsp_dump_frame *frame, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_buf_clear(out);
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    for (size_t i = 0; i < frame->local_count; i++) {
        gsp_json_keysv(&json, frame->locals[i].name);
        gsp_json_sv(&json, frame->locals[i].value);
    }
    gsp_json_obj_end(&json);
}

static uint32_t intern(struct gsp_batch *batch, struct gsp_sv text)
{
    return text.len ? gsp_store_batch_intern(batch, text) : GSP_NULL_STR;
}

static int put_thread(const struct gsp_source_backtraces *source,
                      const struct gsp_dump_thread *thread, struct gsp_row_python_backtrace *row,
                      struct gsp_batch *batch, struct gsp_err *err)
{
    gsp_auto_buf locals = {0};
    const uint64_t id = thread->os_id ? thread->os_id : thread->python_id;
    row->thread_id = id ? (int64_t)(id & INT64_MAX) : GSP_NULL_I64;
    row->thread_name = intern(batch, thread->name);
    for (size_t i = 0; i < thread->frame_count; i++) {
        const struct gsp_dump_frame *frame = &thread->frames[i];
        row->depth = (int64_t)i;
        row->func = intern(batch, frame->name);
        row->file = intern(batch, frame->file);
        row->lineno = frame->line ? (int64_t)frame->line : GSP_NULL_I64;
        row->frame_type =
            gsp_store_batch_intern(batch, gsp_sv_of(frame->is_native ? "Native" : "Python"));
        row->locals = (struct gsp_sv){NULL, 0};
        if (source->locals && !frame->is_native) {
            gsp_source_backtrace_put_locals(frame, &locals);
            row->locals = gsp_buf_sv(&locals);
        }
        int rc = gsp_store_batch_append(batch, row, err);
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

int gsp_source__backtraces_fill(void *source, struct gsp_batch *batch, struct gsp_err *err)
{
    const struct gsp_source_backtraces *from = source;
    const struct gsp_dump_opts opts = {.locals = from->locals, .native = from->native};
    struct gsp_dump *dump = NULL;
    struct gsp_row_python_backtrace row = {.ts_ns = gsp_realtime_ns(),
                                           .mono_ns = gsp_now_ns(),
                                           .pid = from->pid,
                                           .rank = GSP_NULL_I64};
    int64_t rank = 0;
    if (gsp_proc_rank(from->pid, &rank))
        row.rank = rank;
    int rc = gsp_sample_dump_new(from->pid, &opts, &dump, err);
    if (rc < 0)
        return from->is_one_of_many ? GSP_OK : rc;
    row.trigger = gsp_store_batch_intern(batch, gsp_sv_of("query"));
    for (size_t i = 0; rc == GSP_OK && i < dump->thread_count; i++)
        rc = put_thread(from, &dump->threads[i], &row, batch, err);
    gsp_sample_dump_free(dump);
    return rc;
}

int gsp_source__backtraces_add(struct gsp_store *store, struct gsp_source_backtraces *source,
                               struct gsp_err *err)
{
    return gsp_store_add_live(store, gsp_wire_table_at(GSP_TABLE_python_backtrace),
                              gsp_source__backtraces_fill, source, err);
}
