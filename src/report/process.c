/* SPDX-License-Identifier: Apache-2.0 */
#include "report/process.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/time.h"
#include "export/rows_json.h"
#include "model/cells.h"

#define TEXT_FRAMES_MAX 12 /* of a thread; JSON has all */

/* A query and the name of its rows. $T is the time of the report. */
struct section {
    const char *key;
    const char *title;
    const char *sql;
};

enum { SECTION_EVENTS, SECTION_STACKS, SECTION_TABLES };

static const struct section SECTIONS[] = {
    [SECTION_EVENTS] = {"events", NULL,
                        "SELECT kind::VARCHAR AS kind, detail, signal, exit_status, ts_ns, "
                        "round(($T - ts_ns) / 1e9, 3) AS ago_s FROM process.event "
                        "WHERE kind <> 'followed' ORDER BY ts_ns DESC LIMIT 20"},
    [SECTION_STACKS] = {"stacks", "Last stacks",
                        "SELECT thread_id, thread_name, on_cpu, has_gil, "
                        "round(($T - ts_ns) / 1e9, 3) AS ago_s, func, file, lineno, depth, "
                        "frame_type FROM gsprof.last_stacks()"},
    [SECTION_TABLES] = {"steps", "Last step",
                        "SELECT max(step) AS step, round(($T - max(ts_ns)) / 1e9, 3) AS ago_s, "
                        "round(1000 * arg_max(duration, ts_ns), 3) AS last_ms, "
                        "round(1000 * median(duration), 3) AS median_ms, "
                        "round(1 / median(duration), 2) AS steps_per_s, count(*) AS among FROM "
                        "(SELECT * FROM python.torch_step ORDER BY ts_ns DESC LIMIT 100) "
                        "HAVING count(*) > 0"},
    {"modules", "Slowest modules",
     "SELECT module, stage, count(*) AS calls, round(1000 * avg(duration), 3) AS mean_ms, "
     "round(1000 * max(duration), 3) AS max_ms, round(sum(duration), 3) AS total_s "
     "FROM python.torch_trace GROUP BY module, stage ORDER BY sum(duration) DESC LIMIT 8"},
    {"spans", "Last spans",
     "SELECT name, round(($T - ts_ns) / 1e9, 3) AS ago_s, round(duration_ns / 1e6, 3) AS ms, "
     "thread_id, attributes FROM python.span ORDER BY ts_ns DESC LIMIT 8"},
    {"metrics", "Memory and CPU, last ten seconds",
     "SELECT round(arg_max(rss_bytes, ts_ns) / 1e6, 1) AS rss_mb, "
     "round(max(rss_bytes) / 1e6, 1) AS rss_max_mb, "
     "round(arg_max(cpu_percent, ts_ns), 1) AS cpu_percent, "
     "round(avg(cpu_percent), 1) AS mean_cpu_percent, arg_max(threads, ts_ns) AS threads, "
     "arg_max(state::VARCHAR, ts_ns) AS state, round(($T - max(ts_ns)) / 1e9, 3) AS ago_s "
     "FROM process.metrics WHERE ts_ns > (SELECT max(ts_ns) FROM process.metrics) - 10000000000 "
     "AND state IS DISTINCT FROM 'Z' "
     "HAVING count(*) > 0"},
    {"machine", "Memory of the machine or the cgroup",
     "SELECT round(used_bytes / 1e6, 1) AS used_mb, round(available_bytes / 1e6, 1) AS "
     "available_mb, round(total_bytes / 1e6, 1) AS total_mb, limit_source "
     "FROM system.memory ORDER BY ts_ns DESC LIMIT 1"},
    {"overhead", "Overhead of gsprof",
     "SELECT source::VARCHAR AS source, round(arg_max(percent, ts_ns), 3) AS percent, "
     "round(arg_max(low_percent, ts_ns), 3) AS low_percent, "
     "round(arg_max(high_percent, ts_ns), 3) AS high_percent "
     "FROM gsprof.overhead GROUP BY source "
     "UNION ALL SELECT 'sampler', round(arg_max(cpu_percent, ts_ns), 3), NULL, NULL "
     "FROM gsprof.sampler HAVING count(*) > 0 ORDER BY source"},
    {"losses", "Losses",
     "SELECT source::VARCHAR AS source, cause::VARCHAR AS cause, sum(count)::BIGINT AS count "
     "FROM gsprof.loss WHERE cause <> 'overwritten' GROUP BY source, cause "
     "HAVING sum(count) > 0 ORDER BY source, cause"},
};

/* The current stacks of a live process. */
static const char PRESENT_STACKS[] =
    "SELECT thread_id, thread_name, NULL::BOOLEAN AS on_cpu, NULL::BOOLEAN AS has_gil, "
    "0.0 AS ago_s, func, file, lineno, depth, frame_type FROM python.backtrace "
    "WHERE trigger = 'query' ORDER BY thread_id, depth";

/* Now, or the time of the newest row of a process that has exited. */
static int64_t report_time(const struct gsp_report_process_facts *process)
{
    return process->is_live ? gsp_realtime_ns() : process->last_write_ns;
}

static int query(struct gsp_store *store, const char *sql, int64_t time_ns, struct gsp_rows **out,
                 struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    for (const char *at = sql; *at; at++) {
        if (at[0] == '$' && at[1] == 'T') {
            gsp_buf_printf(&text, "%" PRId64, time_ns);
            at++;
        } else {
            gsp_buf_putc(&text, *at);
        }
    }
    *out = NULL;
    return text.failed ? gsp_err_nomem(err)
                       : gsp_store_query(store, gsp_buf_sv(&text), out, NULL, err);
}

/* --------------------------------------------------------------------------------------- JSON */

static int append_rows(struct gsp_store *store, const char *sql, int64_t time_ns,
                       struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    int rc = query(store, sql, time_ns, &rows, err);
    if (rc == GSP_OK)
        rc = gsp_export_rows_json_append(rows, out, err);
    gsp_rows_free(rows);
    return rc;
}

static int append_section(struct gsp_store *store, const struct gsp_report_process_facts *process,
                          size_t section, int64_t time_ns, struct gsp_buf *out, struct gsp_err *err)
{
    /* If the stacks cannot be read now, recorded ones may exist. */
    if (section == SECTION_STACKS && process->is_live &&
        append_rows(store, PRESENT_STACKS, time_ns, out, NULL) == GSP_OK)
        return GSP_OK;
    gsp_buf_clear(out);
    return append_rows(store, SECTIONS[section].sql, time_ns, out, err);
}

int gsp_report_process_json(struct gsp_store *store, const struct gsp_report_process_facts *process,
                            struct gsp_buf *out, struct gsp_err *err)
{
    const int64_t time_ns = report_time(process);
    struct gsp_json json;
    int rc = GSP_OK;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", process->pid);
    gsp_json_put_bool(&json, "live", process->is_live);
    gsp_json_put_str(&json, "command", process->command);
    gsp_json_put_bool(&json, "has_tables", process->has_rings);
    gsp_json_put_i64(&json, "about_ns", time_ns);
    for (size_t i = 0; rc == GSP_OK && i < GSP_COUNT(SECTIONS); i++) {
        gsp_auto_buf rows = {0};
        rc = append_section(store, process, i, time_ns, &rows, err);
        gsp_json_put_raw(&json, SECTIONS[i].key, gsp_buf_sv(&rows));
    }
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
    return rc == GSP_OK && out->failed ? gsp_err_nomem(err) : rc;
}

/* --------------------------------------------------------------------------------------- text */

/* Parts of the text that come from single rows. */
struct text {
    struct gsp_buf events; /* lines */
    struct gsp_buf stacks; /* lines */
    bool has_end;          /* one of the events is the end of the process */
};

/* A row of a batch. */
struct row {
    const struct gsp_rows *rows;
    const struct gsp_batch_view *batch;
    size_t at;
};

/* The index of a column that has a value in the row; SIZE_MAX otherwise. */
static size_t find_value(const struct row *row, const char *column)
{
    for (size_t i = 0; i < row->rows->column_count; i++)
        if (strcmp(row->rows->columns[i].name, column) == 0 &&
            !gsp_model_values_is_null(&row->batch->values[i], row->at))
            return i;
    return SIZE_MAX;
}

/* "" if the value is NULL. */
static struct gsp_sv text_of(const struct row *row, const char *column)
{
    const size_t i = find_value(row, column);
    if (i == SIZE_MAX)
        return (struct gsp_sv){"", 0};
    return gsp_model_cell_text(&row->rows->columns[i], &row->batch->values[i], row->at);
}

/* -1 if the value is NULL. */
static int64_t number_of(const struct row *row, const char *column)
{
    const size_t i = find_value(row, column);
    if (i == SIZE_MAX || row->rows->columns[i].kind != GSP_CELL_I64)
        return -1;
    return ((const int64_t *)row->batch->values[i].data)[row->at];
}

static int each_row(struct gsp_store *store, const char *sql, int64_t time_ns,
                    void (*put)(struct text *text, const struct row *row), struct text *text,
                    struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    int rc = query(store, sql, time_ns, &rows, err);
    while (rc >= 0 && (rc = gsp_rows_next(rows, &batch, err)) > 0)
        for (size_t i = 0; i < batch.row_count; i++)
            put(text, &(struct row){rows, &batch, i});
    gsp_rows_free(rows);
    return rc;
}

static void put_age(int64_t ts_ns, struct gsp_buf *out)
{
    char age[32];
    const int64_t ns = gsp_realtime_ns() - ts_ns;
    gsp_buf_printf(out, "%s ago\n", gsp_fmt_duration(ns > 0 ? ns : 0, age, sizeof(age)));
}

static void put_event(struct text *text, const struct row *row)
{
    struct gsp_buf *out = &text->events;
    const struct gsp_sv kind = text_of(row, "kind");
    if (gsp_sv_eq(kind, gsp_sv_of("end"))) {
        text->has_end = true;
        gsp_buf_puts(out, "The process ");
    } else {
        gsp_buf_term(out, kind);
        gsp_buf_puts(out, ": ");
    }
    gsp_buf_term(out, text_of(row, "detail"));
    gsp_buf_puts(out, ", ");
    put_age(number_of(row, "ts_ns"), out);
}

static void put_frame(struct text *text, const struct row *row)
{
    struct gsp_buf *out = &text->stacks;
    const int64_t depth = number_of(row, "depth");
    const int64_t line = number_of(row, "lineno");
    const struct gsp_sv file = text_of(row, "file");
    if (depth == 0) {
        gsp_buf_printf(out, "  thread %" PRId64 " ", number_of(row, "thread_id"));
        gsp_buf_term(out, text_of(row, "thread_name"));
        gsp_buf_putc(out, '\n');
    }
    if (depth == TEXT_FRAMES_MAX)
        gsp_buf_puts(out, "      ...\n");
    if (depth >= TEXT_FRAMES_MAX)
        return;
    gsp_buf_puts(out, "      ");
    gsp_buf_term(out, text_of(row, "func"));
    if (file.len) {
        gsp_buf_puts(out, " (");
        gsp_buf_term(out, gsp_sv_basename(file));
        if (line > 0)
            gsp_buf_printf(out, ":%" PRId64, line);
        gsp_buf_putc(out, ')');
    }
    gsp_buf_putc(out, '\n');
}

static int read_stacks(struct gsp_store *store, const struct gsp_report_process_facts *process,
                       int64_t time_ns, struct text *text, struct gsp_err *err)
{
    /* If the stacks cannot be read now, recorded ones may exist. */
    if (process->is_live && each_row(store, PRESENT_STACKS, time_ns, put_frame, text, NULL) >= 0)
        return GSP_OK;
    gsp_buf_clear(&text->stacks);
    return each_row(store, SECTIONS[SECTION_STACKS].sql, time_ns, put_frame, text, err);
}

static const char *style_code(const struct gsp_rows_table_opts *style, const char *code)
{
    return style->color ? code : "";
}

static void put_title(const struct gsp_rows_table_opts *style, const char *title,
                      struct gsp_buf *out)
{
    gsp_buf_printf(out, "\n%s%s%s\n", style_code(style, GSP_STYLE_BOLD), title,
                   style_code(style, GSP_STYLE_OFF));
}

static void put_head(const struct gsp_report_process_facts *process, const struct text *text,
                     const struct gsp_rows_table_opts *style, struct gsp_buf *out)
{
    gsp_buf_printf(out, "%sProcess %d%s ", style_code(style, GSP_STYLE_BOLD), (int)process->pid,
                   style_code(style, GSP_STYLE_OFF));
    gsp_buf_term(out, gsp_sv_of(process->command));
    gsp_buf_putc(out, '\n');
    if (process->is_live) {
        gsp_buf_puts(out, process->has_rings ? "Running\n" : "Running; it has no tables\n");
    } else if (!text->has_end) {
        gsp_buf_puts(out, "Exited (status unknown: no follower); last row ");
        put_age(process->last_write_ns, out);
    }
    gsp_buf_putsv(out, gsp_buf_sv(&text->events));
}

static void put_next(const struct gsp_report_process_facts *process, bool has_stacks,
                     struct gsp_buf *out)
{
    const int pid = (int)process->pid;
    gsp_buf_puts(out, "\nNext:\n");
    if (process->is_live && !has_stacks)
        gsp_buf_puts(out, "  gsprof doctor\n");
    if (process->is_live && !process->has_rings)
        gsp_buf_printf(out, "  gsprof follow %d --detach\n", pid);
    gsp_buf_printf(out, "  gsprof backtrace %d\n", pid);
    if (process->has_rings)
        gsp_buf_printf(out, "  gsprof query %d 'FROM gsprof.hot_functions()'\n  gsprof tables %d\n",
                       pid, pid);
}

/* Nothing if the section has no rows. */
static int put_table(struct gsp_store *store, const struct section *section, int64_t time_ns,
                     const struct gsp_rows_table_opts *style, struct gsp_out *out,
                     struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    struct gsp_rows_table *table = NULL;
    int rc = query(store, section->sql, time_ns, &rows, err);
    if (rc == GSP_OK)
        rc = gsp_report_rows_table_new(rows, style, &table, err);
    if (rc == GSP_OK && !gsp_report__rows_table_is_empty(table)) {
        put_title(style, section->title, &out->buf);
        rc = gsp_report_rows_table_write(table, out, err);
    }
    gsp_report_rows_table_free(table);
    gsp_rows_free(rows);
    return rc;
}

int gsp_report_process_text(struct gsp_store *store, const struct gsp_report_process_facts *process,
                            const struct gsp_rows_table_opts *style, struct gsp_out *out,
                            struct gsp_err *err)
{
    const int64_t time_ns = report_time(process);
    struct text text = {0};
    int rc = each_row(store, SECTIONS[SECTION_EVENTS].sql, time_ns, put_event, &text, err);
    put_head(process, &text, style, &out->buf);
    for (size_t i = SECTION_TABLES; rc >= 0 && i < GSP_COUNT(SECTIONS); i++)
        rc = put_table(store, &SECTIONS[i], time_ns, style, out, err);
    if (rc >= 0)
        rc = read_stacks(store, process, time_ns, &text, err);
    if (text.stacks.len > 0) {
        put_title(style, SECTIONS[SECTION_STACKS].title, &out->buf);
        gsp_buf_putsv(&out->buf, gsp_buf_sv(&text.stacks));
    }
    put_next(process, text.stacks.len > 0, &out->buf);
    out->buf.failed = out->buf.failed || text.events.failed || text.stacks.failed;
    gsp_buf_free(&text.events);
    gsp_buf_free(&text.stacks);
    return rc < 0 ? rc : GSP_OK;
}
