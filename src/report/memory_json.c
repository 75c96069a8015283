/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "report/memory_view.h"

#define STACK_SHOWN 64U

/* --------------------------------------------------------------------------------------- JSON */

static void put_known(struct gsp_json *json, const char *key, int64_t v)
{
    if (gsp_json_key_or_null(json, key, !(v == GSP_MEMLOG_UNKNOWN || v < 0)))
        gsp_json_i64(json, v);
}

static void put_seconds(struct gsp_json *json, const char *key, int64_t ns)
{
    if (gsp_json_key_or_null(json, key, ns >= 0))
        gsp_json_fixed(json, ns, 9);
}

static void put_frame(struct gsp_json *json, const struct gsp_profile *profile, uint32_t id)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
    gsp_json_obj_begin(json);
    if (frame) {
        gsp_json_put_sv(json, "function", gsp_model_profile_string_at(profile, frame->name));
        gsp_json_put_sv(json, "file", gsp_model_profile_string_at(profile, frame->file));
        if (gsp_json_key_or_null(json, "line", frame->line))
            gsp_json_u64(json, frame->line);
    }
    gsp_json_obj_end(json);
}

/* Innermost first. */
static void put_stack(struct gsp_json *json, const struct gsp_profile *profile, uint32_t stack)
{
    gsp_json_put_arr_begin(json, "stack");
    for (size_t i = 0; stack != GSP_NONE && i < STACK_SHOWN; i++) {
        put_frame(json, profile, gsp_model_profile_stack_frame(profile, stack));
        stack = gsp_model_profile_stack_caller(profile, stack);
    }
    gsp_json_arr_end(json);
}

static void put_value(struct gsp_json *json, const struct gsp_memlog_value *value)
{
    gsp_json_put_i64(json, "bytes", value->bytes);
    gsp_json_put_i64(json, "blocks", value->count);
    gsp_json_put_f64(json, "error_bytes", gsp_memlog_value_error(value));
    gsp_json_put_u64(json, "allocated_bytes", value->alloc_bytes);
    gsp_json_put_u64(json, "allocated_blocks", value->alloc_count);
}

static void put_name(struct gsp_json *json, const struct gsp_memory_view *report, uint32_t group)
{
    gsp_auto_buf name = {0};
    gsp_memlog_group_name(&report->groups, report->log, group, &name);
    gsp_json_put_sv(json, "name", gsp_buf_sv(&name));
}

static void put_rows(struct gsp_json *json, const struct gsp_memory_view *report)
{
    gsp_json_put_arr_begin(json, "rows");
    for (size_t i = 0; i < report->rows.count && (!report->limit || i < report->limit); i++) {
        const struct gsp_memlog_row *row = &report->rows.at[i];
        gsp_json_obj_begin(json);
        put_name(json, report, row->group);
        put_value(json, &row->value);
        put_stack(json, gsp_memlog_profile(report->log), row->stack);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_leaks(struct gsp_json *json, const struct gsp_memory_view *report)
{
    const struct gsp_memlog_leaks *leaks = &report->values.leaks;
    gsp_json_put_bool(json, "long_enough", leaks->stretches >= GSP_MEMLOG_LEAK_WINDOWS_MIN);
    gsp_json_put_arr_begin(json, "leaks");
    for (size_t i = 0; i < leaks->count; i++) {
        const struct gsp_memlog_leak *leak = &leaks->at[i];
        gsp_json_obj_begin(json);
        put_name(json, report, leak->group);
        gsp_json_put_f64(json, "bytes_per_s", leak->bytes_per_s);
        gsp_json_put_f64(json, "bytes_per_step", leak->bytes_per_step);
        gsp_json_put_i64(json, "growth_bytes", leak->growth_bytes);
        gsp_json_put_i64(json, "held_bytes", leak->live_bytes);
        gsp_json_put_f64(json, "z", leak->z);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_processes(struct gsp_json *json, const struct gsp_memory_view *report)
{
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    gsp_json_put_arr_begin(json, "processes");
    for (uint32_t i = 0; gsp_memlog_process(report->log, i); i++) {
        const struct gsp_memlog_process *about = gsp_memlog_process(report->log, i);
        const struct gsp_process *process = gsp_model_profile_process_at(profile, i);
        gsp_json_obj_begin(json);
        gsp_json_put_i64(json, "pid", process->pid);
        gsp_json_put_sv(json, "command", gsp_model_profile_string_at(profile, process->cmdline));
        gsp_json_put_str(json, "mode", gsp_wire_memory_mode_name(about->mode));
        gsp_json_put_u64(json, "sample_bytes", about->interval_bytes);
        gsp_json_put_bool(json, "ended", about->gone);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

/* The totals of the processes at each tick. */
static void put_timeline(struct gsp_json *json, const struct gsp_memory_view *report)
{
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    gsp_json_put_arr_begin(json, "timeline");
    for (size_t i = 0; i < gsp_memlog_tick_count(report->log); i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_tick(report->log, i);
        if (tick->is_gone)
            continue;
        gsp_json_obj_begin(json);
        put_seconds(json, "time_s", tick->time_ns);
        gsp_json_put_i64(json, "pid", gsp_model_profile_process_at(profile, tick->process)->pid);
        for (size_t k = 0; gsp_memlog_total_name(k); k++)
            put_known(json, gsp_memlog_total_name(k), tick->total[k]);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

void gsp_report_memory_json(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    const struct gsp_memlog_meta *meta = gsp_memlog_meta(report->log);
    const struct gsp_memory_peak peak = gsp_report__memory_peak(report);
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "view", gsp_report__memory_view_name(report->question.view));
    gsp_json_put_str(&json, "by", gsp_memlog_group_by_name(report->groups.by));
    gsp_json_put_bool(&json, "exact", gsp_report__memory_is_exact(report));
    gsp_json_put_bool(&json, "truncated", meta->truncated);
    put_seconds(&json, "start_s", meta->start_ns);
    put_seconds(&json, "duration_s", meta->duration_ns);
    put_known(&json, "peak_bytes", peak.bytes);
    put_seconds(&json, "peak_s", peak.time_ns);
    put_known(&json, "peak_rss_bytes", peak.rss_bytes);
    put_known(&json, "peak_huge_bytes", peak.huge_bytes);
    if (gsp_json_key_or_null(&json, "transparent_hugepage", meta->huge_setting[0]))
        gsp_json_str(&json, meta->huge_setting);
    gsp_json_put_obj_begin(&json, "total");
    put_value(&json, &report->rows.all);
    gsp_json_obj_end(&json);
    put_processes(&json, report);
    if (report->question.view == GSP_MEMVIEW_LEAKS)
        put_leaks(&json, report);
    put_rows(&json, report);
    put_timeline(&json, report);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}

/* ---------------------------------------------------------------------------------------- rows */

#define COLUMN(label, type)                                                                        \
    {                                                                                              \
        .name = (label), .sql_type = (type) == GSP_CELL_TEXT ? "VARCHAR" : "BIGINT",               \
        .kind = (type)                                                                             \
    }

int gsp_report_memory_rows(const struct gsp_memory_view *report, struct gsp_row_list **out,
                           struct gsp_err *err)
{
    static const struct gsp_rows_column COLUMNS[] = {
        COLUMN("name", GSP_CELL_TEXT),           COLUMN("bytes", GSP_CELL_I64),
        COLUMN("blocks", GSP_CELL_I64),          COLUMN("error_bytes", GSP_CELL_I64),
        COLUMN("allocated_bytes", GSP_CELL_I64), COLUMN("allocated_blocks", GSP_CELL_I64),
        COLUMN("bytes_per_s", GSP_CELL_I64),     COLUMN("bytes_per_step", GSP_CELL_I64),
    };
    const struct gsp_memlog_leaks *leaks = &report->values.leaks;
    int rc = gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS), out, err);
    for (size_t i = 0;
         rc == GSP_OK && i < report->rows.count && (!report->limit || i < report->limit); i++) {
        const struct gsp_memlog_row *row = &report->rows.at[i];
        const struct gsp_memlog_leak *leak = NULL;
        gsp_auto_buf name = {0};
        for (size_t k = 0; k < leaks->count; k++)
            leak = leaks->at[k].group == row->group ? &leaks->at[k] : leak;
        gsp_memlog_group_name(&report->groups, report->log, row->group, &name);
        gsp_model_row_list_add_text(*out, gsp_buf_sv(&name));
        gsp_model_row_list_add_i64(*out, row->value.bytes);
        gsp_model_row_list_add_i64(*out, row->value.count);
        gsp_model_row_list_add_i64(*out, (int64_t)gsp_memlog_value_error(&row->value));
        gsp_model_row_list_add_i64(*out, (int64_t)row->value.alloc_bytes);
        gsp_model_row_list_add_i64(*out, (int64_t)row->value.alloc_count);
        gsp_model_row_list_add_i64(*out, leak ? (int64_t)leak->bytes_per_s : INT64_MIN);
        gsp_model_row_list_add_i64(*out, leak && isfinite(leak->bytes_per_step)
                                             ? (int64_t)leak->bytes_per_step
                                             : INT64_MIN);
    }
    return rc;
}

int gsp_report_memory_timeline(const struct gsp_memory_view *report, struct gsp_row_list **out,
                               struct gsp_err *err)
{
    struct gsp_rows_column columns[GSP_MEMTOTALS + 2] = {COLUMN("time_ns", GSP_CELL_I64),
                                                         COLUMN("pid", GSP_CELL_I64)};
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    for (size_t k = 0; k < GSP_MEMTOTALS; k++)
        columns[k + 2] = (struct gsp_rows_column)COLUMN(gsp_memlog_total_name(k), GSP_CELL_I64);
    int rc = gsp_model_row_list_new(columns, GSP_COUNT(columns), out, err);
    for (size_t i = 0; rc == GSP_OK && i < gsp_memlog_tick_count(report->log); i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_tick(report->log, i);
        if (tick->is_gone)
            continue;
        gsp_model_row_list_add_i64(*out, tick->time_ns);
        gsp_model_row_list_add_i64(*out, gsp_model_profile_process_at(profile, tick->process)->pid);
        for (size_t k = 0; k < GSP_MEMTOTALS; k++)
            gsp_model_row_list_add_i64(*out, tick->total[k]);
    }
    return rc;
}
