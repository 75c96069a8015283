/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/query_runner.h"
#include "client/json_rows.h"
#include "export/rows_json.h"
#include "proc/task.h"
#include "report/rows_table.h"

#define SECTION_BYTES_MAX ((size_t)64 << 20)
#define TEXT_FRAMES_MAX   12 /* of a thread; --json has all */

/* One question, and what its answer is called.  $T is the moment that the report is about. */
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
    {"modules", "Modules that took the most time",
     "SELECT module, stage, count(*) AS calls, round(1000 * avg(duration), 3) AS mean_ms, "
     "round(1000 * max(duration), 3) AS max_ms, round(sum(duration), 3) AS total_s "
     "FROM python.torch_trace GROUP BY module, stage ORDER BY sum(duration) DESC LIMIT 8"},
    {"spans", "Last spans",
     "SELECT name, round(($T - ts_ns) / 1e9, 3) AS ago_s, round(duration_ns / 1e6, 3) AS ms, "
     "thread_id, attributes FROM python.span ORDER BY ts_ns DESC LIMIT 8"},
    {"metrics", "Memory and CPU of the last ten seconds",
     "SELECT round(arg_max(rss_bytes, ts_ns) / 1e6, 1) AS rss_mb, "
     "round(max(rss_bytes) / 1e6, 1) AS rss_max_mb, "
     "round(arg_max(cpu_percent, ts_ns), 1) AS cpu_percent, "
     "round(avg(cpu_percent), 1) AS mean_cpu_percent, arg_max(threads, ts_ns) AS threads, "
     "arg_max(state::VARCHAR, ts_ns) AS state, round(($T - max(ts_ns)) / 1e9, 3) AS ago_s "
     "FROM process.metrics WHERE ts_ns > (SELECT max(ts_ns) FROM process.metrics) - 10000000000 "
     "AND state IS DISTINCT FROM 'Z' "
     "HAVING count(*) > 0"},
    {"machine", "Memory of the machine, or of the group",
     "SELECT round(used_bytes / 1e6, 1) AS used_mb, round(available_bytes / 1e6, 1) AS "
     "available_mb, round(total_bytes / 1e6, 1) AS total_mb, limit_source "
     "FROM system.memory ORDER BY ts_ns DESC LIMIT 1"},
    {"overhead", "What gsprof cost",
     "SELECT source::VARCHAR AS source, round(arg_max(percent, ts_ns), 3) AS percent, "
     "round(arg_max(low_percent, ts_ns), 3) AS low_percent, "
     "round(arg_max(high_percent, ts_ns), 3) AS high_percent "
     "FROM gsprof.overhead GROUP BY source "
     "UNION ALL SELECT 'sampler', round(arg_max(cpu_percent, ts_ns), 3), NULL, NULL "
     "FROM gsprof.sampler HAVING count(*) > 0 ORDER BY source"},
    {"losses", "Lost",
     "SELECT source::VARCHAR AS source, cause::VARCHAR AS cause, sum(count)::BIGINT AS count "
     "FROM gsprof.loss WHERE cause <> 'overwritten' GROUP BY source, cause "
     "HAVING sum(count) > 0 ORDER BY source, cause"},
};

/* Of a process that runs: its stacks as they are. */
static const char PRESENT_STACKS[] =
    "SELECT thread_id, thread_name, NULL::BOOLEAN AS on_cpu, NULL::BOOLEAN AS has_gil, "
    "0.0 AS ago_s, func, file, lineno, depth, frame_type FROM python.backtrace "
    "WHERE trigger = 'query' ORDER BY thread_id, depth";

struct report {
    struct gsp_asker asker;
    struct gsp_buf answers[GSP_COUNT(SECTIONS)]; /* arrays in JSON */
    struct gsp_buf command;
    int64_t about_ns; /* now, or the newest row of a process that has ended */
};

bool gsp_report_is_process(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0' && access(word, F_OK) != 0;
}

/* The rows of a statement as an array in JSON. */
static int ask(struct report *report, const char *sql, struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    struct gsp_out stream;
    gsp_auto_buf text = {0};
    for (const char *at = sql; *at; at++) {
        if (at[0] == '$' && at[1] == 'T') {
            gsp_buf_printf(&text, "%" PRId64, report->about_ns);
            at++;
        } else {
            gsp_buf_putc(&text, *at);
        }
    }
    gsp_auto_fd fd = memfd_create("gsprof-report", MFD_CLOEXEC);
    const char *statement = gsp_buf_cstr(&text);
    if (fd < 0 || !statement)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for the report");
    int rc = gsp_asker_rows(&report->asker, statement, &rows, err);
    if (rc < 0)
        return rc;
    gsp_out_init(&stream, fd);
    rc = gsp_export_rows_write_json(rows, &stream, err);
    gsp_rows_free(rows);
    const int done = gsp_out_finish(&stream, rc == GSP_OK ? err : NULL);
    if (rc == GSP_OK)
        rc = done;
    if (rc == GSP_OK && lseek(fd, 0, SEEK_SET) != 0)
        rc = gsp_err_set(err, GSP_E_IO, 0, "the report cannot be read back");
    return rc == GSP_OK ? gsp_fd_read_all(fd, SECTION_BYTES_MAX, out, err) : rc;
}

static int ask_all(struct report *report, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < GSP_COUNT(SECTIONS); i++) {
        /* A process that cannot be looked at now was perhaps seen before. */
        if (i == SECTION_STACKS && report->asker.endpoint.is_live &&
            ask(report, PRESENT_STACKS, &report->answers[i], NULL) == GSP_OK)
            continue;
        gsp_buf_clear(&report->answers[i]);
        rc = ask(report, SECTIONS[i].sql, &report->answers[i], err);
    }
    return rc;
}

static bool is_empty(const struct gsp_buf *answer)
{
    return answer->len == 0 || !memchr(answer->p, '{', answer->len);
}

/* -------------------------------------------------------------------------------------- text */

/* A cell as text; "" when it is NULL or the column is not there. */
static struct gsp_sv cell_text(const struct gsp_rows *rows, const struct gsp_batch_view *batch,
                               const char *column, size_t row)
{
    for (size_t i = 0; i < rows->column_count; i++) {
        if (strcmp(rows->columns[i].name, column) != 0 || rows->columns[i].kind != GSP_CELL_TEXT ||
            gsp_model_values_is_null(&batch->values[i], row))
            continue;
        return ((const struct gsp_sv *)batch->values[i].data)[row];
    }
    return (struct gsp_sv){"", 0};
}

static int64_t cell_i64(const struct gsp_rows *rows, const struct gsp_batch_view *batch,
                        const char *column, size_t row)
{
    for (size_t i = 0; i < rows->column_count; i++)
        if (strcmp(rows->columns[i].name, column) == 0 && rows->columns[i].kind == GSP_CELL_I64 &&
            !gsp_model_values_is_null(&batch->values[i], row))
            return ((const int64_t *)batch->values[i].data)[row];
    return -1;
}

/* The rows of an answer, one by one. */
static int each_row(const struct gsp_buf *answer,
                    void (*put)(const struct gsp_rows *rows, const struct gsp_batch_view *batch,
                                size_t row, struct gsp_buf *out),
                    struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    int rc = gsp_json_rows_new(gsp_buf_sv(answer), NULL, &rows, err);
    while (rc >= 0 && (rc = gsp_rows_next(rows, &batch, err)) > 0)
        for (size_t i = 0; i < batch.row_count; i++)
            put(rows, &batch, i, out);
    gsp_rows_free(rows);
    return rc;
}

static void put_event(const struct gsp_rows *rows, const struct gsp_batch_view *batch, size_t row,
                      struct gsp_buf *out)
{
    const struct gsp_sv kind = cell_text(rows, batch, "kind", row);
    char at[32];
    const int64_t ns = gsp_realtime_ns() - cell_i64(rows, batch, "ts_ns", row);
    if (gsp_sv_eq(kind, gsp_sv_of("end"))) {
        gsp_buf_puts(out, "It ");
    } else {
        gsp_buf_term(out, kind);
        gsp_buf_puts(out, ": ");
    }
    gsp_buf_term(out, cell_text(rows, batch, "detail", row));
    gsp_buf_printf(out, ", %s ago\n", gsp_fmt_duration(ns > 0 ? ns : 0, at, sizeof(at)));
}

static void put_frame(const struct gsp_rows *rows, const struct gsp_batch_view *batch, size_t row,
                      struct gsp_buf *out)
{
    const int64_t depth = cell_i64(rows, batch, "depth", row);
    const int64_t line = cell_i64(rows, batch, "lineno", row);
    const struct gsp_sv file = cell_text(rows, batch, "file", row);
    if (depth == 0) {
        gsp_buf_printf(out, "  thread %" PRId64 " ", cell_i64(rows, batch, "thread_id", row));
        gsp_buf_term(out, cell_text(rows, batch, "thread_name", row));
        gsp_buf_putc(out, '\n');
    }
    if (depth == TEXT_FRAMES_MAX)
        gsp_buf_puts(out, "      ...\n");
    if (depth >= TEXT_FRAMES_MAX)
        return;
    gsp_buf_puts(out, "      ");
    gsp_buf_term(out, cell_text(rows, batch, "func", row));
    if (file.len) {
        gsp_buf_puts(out, " (");
        gsp_buf_term(out, gsp_sv_basename(file));
        if (line > 0)
            gsp_buf_printf(out, ":%" PRId64, line);
        gsp_buf_putc(out, ')');
    }
    gsp_buf_putc(out, '\n');
}

static int put_table(const struct gsp_buf *answer, const struct gsp_term *term, struct gsp_out *out,
                     struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    struct gsp_rows_table *table = NULL;
    const struct gsp_rows_table_opts opts = {.width = term->is_tty ? term->width : 0,
                                             .color = term->color};
    int rc = gsp_json_rows_new(gsp_buf_sv(answer), NULL, &rows, err);
    if (rc == GSP_OK)
        rc = gsp_rows_table_new(rows, &opts, &table, err);
    if (rc == GSP_OK)
        rc = gsp_rows_table_write(table, out, err);
    gsp_rows_table_free(table);
    gsp_rows_free(rows);
    return rc;
}

static void put_title(const struct gsp_term *term, const char *title, struct gsp_buf *out)
{
    gsp_buf_printf(out, "\n%s%s%s\n", gsp_term_bold(term), title, gsp_term_off(term));
}

static void put_next(const struct report *report, struct gsp_buf *out)
{
    const struct gsp_endpoint *endpoint = &report->asker.endpoint;
    gsp_buf_puts(out, "\nNext:\n");
    if (endpoint->is_live && is_empty(&report->answers[SECTION_STACKS]))
        gsp_buf_printf(out, "  gsprof doctor --pid %d\n", (int)endpoint->pid);
    if (endpoint->is_live && !endpoint->has_rings)
        gsp_buf_printf(out, "  gsprof follow %d --detach\n", (int)endpoint->pid);
    gsp_buf_printf(out, "  gsprof backtrace %d\n", (int)endpoint->pid);
    if (endpoint->has_rings)
        gsp_buf_printf(out, "  gsprof query %d 'FROM gsprof.hot_functions()'\n  gsprof tables %d\n",
                       (int)endpoint->pid, (int)endpoint->pid);
}

static void put_state(const struct report *report, struct gsp_buf *out)
{
    const struct gsp_endpoint *endpoint = &report->asker.endpoint;
    char age[32];
    const int64_t ns = gsp_realtime_ns() - endpoint->place.last_write_ns;
    if (endpoint->is_live)
        gsp_buf_puts(out, endpoint->has_rings ? "It runs\n" : "It runs, and has no tables\n");
    else if (!memmem(report->answers[SECTION_EVENTS].p, report->answers[SECTION_EVENTS].len,
                     "\"end\"", 5))
        gsp_buf_printf(out, "It has ended, nobody saw how; its last row is %s old\n",
                       gsp_fmt_duration(ns > 0 ? ns : 0, age, sizeof(age)));
}

static int put_text(const struct report *report, struct gsp_err *err)
{
    struct gsp_term term;
    struct gsp_out out;
    gsp_term_init(&term, STDOUT_FILENO, report->asker.parsed->globals.color);
    gsp_out_init(&out, STDOUT_FILENO);
    gsp_buf_printf(&out.buf, "%sProcess %d%s ", gsp_term_bold(&term),
                   (int)report->asker.endpoint.pid, gsp_term_off(&term));
    gsp_buf_term(&out.buf, gsp_buf_sv(&report->command));
    gsp_buf_putc(&out.buf, '\n');
    put_state(report, &out.buf);
    int rc = each_row(&report->answers[SECTION_EVENTS], put_event, &out.buf, err);
    for (size_t i = SECTION_TABLES; rc >= 0 && i < GSP_COUNT(SECTIONS); i++) {
        if (is_empty(&report->answers[i]))
            continue;
        put_title(&term, SECTIONS[i].title, &out.buf);
        rc = put_table(&report->answers[i], &term, &out, err);
    }
    if (rc >= 0 && !is_empty(&report->answers[SECTION_STACKS])) {
        put_title(&term, SECTIONS[SECTION_STACKS].title, &out.buf);
        rc = each_row(&report->answers[SECTION_STACKS], put_frame, &out.buf, err);
    }
    put_next(report, &out.buf);
    const int done = gsp_out_finish(&out, rc >= 0 ? err : NULL);
    return rc >= 0 ? done : rc;
}

static int put_json(const struct report *report, struct gsp_err *err)
{
    const struct gsp_endpoint *endpoint = &report->asker.endpoint;
    struct gsp_json json;
    gsp_auto_buf out = {0};
    gsp_json_init(&json, &out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", endpoint->pid);
    gsp_json_put_bool(&json, "live", endpoint->is_live);
    gsp_json_put_sv(&json, "command", gsp_buf_sv(&report->command));
    gsp_json_put_bool(&json, "has_tables", endpoint->has_rings);
    gsp_json_put_i64(&json, "about_ns", report->about_ns);
    for (size_t i = 0; i < GSP_COUNT(SECTIONS); i++) {
        gsp_json_key(&json, SECTIONS[i].key);
        gsp_json_raw(&json, is_empty(&report->answers[i]) ? gsp_sv_of("[]")
                                                          : gsp_buf_sv(&report->answers[i]));
    }
    gsp_json_obj_end(&json);
    gsp_buf_putc(&out, '\n');
    return gsp_file_put(NULL, false, &out, err);
}

static void put_command(const struct gsp_endpoint *endpoint, struct gsp_buf *out)
{
    if (endpoint->is_live)
        gsp_proc_cmdline(endpoint->pid, out);
    else
        gsp_buf_puts(out, endpoint->place.cmdline);
}

int gsp_report_process(const struct gsp_parsed *parsed, const char *word, bool json)
{
    const struct gsp_store_options options = {0};
    struct report report = {.asker = {.parsed = parsed}};
    struct gsp_err err = {0};
    int status = gsp_asker_open(&report.asker, word, &options, NULL);
    if (status == 0) {
        const struct gsp_endpoint *endpoint = &report.asker.endpoint;
        put_command(endpoint, &report.command);
        report.about_ns = endpoint->is_live ? gsp_realtime_ns() : endpoint->place.last_write_ns;
        int rc = ask_all(&report, &err);
        if (rc == GSP_OK)
            rc = json ? put_json(&report, &err) : put_text(&report, &err);
        if (rc < 0)
            status = gsp_cli_fail(parsed, &(struct gsp_hint_context){.pid = endpoint->pid}, &err);
    }
    for (size_t i = 0; i < GSP_COUNT(SECTIONS); i++)
        gsp_buf_free(&report.answers[i]);
    gsp_buf_free(&report.command);
    gsp_asker_close(&report.asker);
    return status;
}

int gsp_report_process_digest(const struct gsp_parsed *parsed, const char *word,
                              struct gsp_digest **out)
{
    const struct gsp_store_options options = {0};
    struct gsp_asker asker = {.parsed = parsed};
    struct gsp_err err = {0};
    gsp_auto_buf command = {0};
    *out = NULL;
    int status = gsp_asker_open(&asker, word, &options, NULL);
    if (status == 0) {
        put_command(&asker.endpoint, &command);
        const struct gsp_digest_opts opts = {.command = gsp_buf_cstr(&command)};
        const int rc = gsp_digest_open_store(asker.store, NULL, word, &opts, out, &err);
        if (rc < 0)
            status =
                gsp_cli_fail(parsed, &(struct gsp_hint_context){.pid = asker.endpoint.pid}, &err);
    }
    gsp_asker_close(&asker);
    return status;
}
