/* SPDX-License-Identifier: Apache-2.0 */
#include "report/memory_view.h"

#include <inttypes.h>
#include <math.h>

#include "base/time.h"
#include "model/format.h"
#include "model/tree.h"
#include "report/grid.h"

int gsp_report_memory_open(struct gsp_memory_view *report, const char *path,
                           enum gsp_memlog_group_by by, struct gsp_err *err)
{
    report->path = path;
    int rc = gsp_memlog_open(path, &report->log, err);
    if (rc == GSP_OK && gsp_memlog_tick_count(report->log) == 0)
        rc = gsp_err_set(err, GSP_E_EMPTY, 0, "%.180s ends before the first snapshot", path);
    if (rc == GSP_OK)
        rc = gsp_memlog_groups_create(&report->groups, report->log, by, err);
    return rc;
}

int gsp_report_memory_select(struct gsp_memory_view *report, struct gsp_err *err)
{
    int rc = gsp_memlog_values_create(&report->values, report->log, &report->question,
                                      &report->groups, err);
    if (rc == GSP_OK)
        rc = gsp_memlog_rows_create(&report->rows, report->log, &report->values, &report->groups,
                                    err);
    return rc;
}

void gsp_report_memory_close(struct gsp_memory_view *report)
{
    gsp_memlog_rows_free(&report->rows);
    gsp_memlog_values_free(&report->values);
    gsp_memlog_groups_free(&report->groups);
    gsp_memlog_close(report->log);
    report->log = NULL;
}

const char *gsp_report__memory_view_name(enum gsp_memlog_view view)
{
    static const char *const names[] = {
        [GSP_MEMVIEW_PEAK] = "peak",           [GSP_MEMVIEW_AT] = "at",
        [GSP_MEMVIEW_DIFF] = "diff",           [GSP_MEMVIEW_LEAKS] = "leaks",
        [GSP_MEMVIEW_TEMPORARY] = "temporary",
    };
    return names[view];
}

bool gsp_report__memory_is_exact(const struct gsp_memory_view *report)
{
    bool exact = true;
    for (size_t i = 0; gsp_memlog_process(report->log, i); i++)
        exact = exact && gsp_memlog_process(report->log, i)->mode == GSP_MEMORY_EXACT;
    return exact;
}

struct gsp_memory_peak gsp_report__memory_peak(const struct gsp_memory_view *report)
{
    struct gsp_memory_peak peak = {-1, -1, -1, -1};
    uint32_t process = 0;
    const size_t ticks = gsp_memlog_tick_count(report->log);
    for (size_t i = 0; i < ticks; i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_tick(report->log, i);
        if (tick->total[GSP_MEMTOTAL_PEAK] < peak.bytes || tick->is_gone)
            continue;
        peak.bytes = tick->total[GSP_MEMTOTAL_PEAK];
        peak.time_ns = tick->total[GSP_MEMTOTAL_PEAK_NS];
        process = tick->process;
    }
    for (size_t i = 0; i < ticks; i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_tick(report->log, i);
        if (tick->process != process)
            continue;
        if (tick->total[GSP_MEMTOTAL_RSS] > peak.rss_bytes)
            peak.rss_bytes = tick->total[GSP_MEMTOTAL_RSS];
        if (tick->total[GSP_MEMTOTAL_HUGE] > peak.huge_bytes)
            peak.huge_bytes = tick->total[GSP_MEMTOTAL_HUGE];
    }
    peak.time_ns = peak.time_ns == GSP_MEMLOG_UNKNOWN ? -1 : peak.time_ns;
    return peak;
}

/* --------------------------------------------------------------------------------------- text */

static void put_bytes(int64_t bytes, struct gsp_buf *out)
{
    gsp_model_amount_put(GSP_UNIT_BYTES, bytes, out);
}

static void put_duration(int64_t ns, struct gsp_buf *out)
{
    char text[32];
    gsp_buf_puts(out, gsp_fmt_duration(ns, text, sizeof(text)));
}

void gsp_report__memory_put_peak(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    const struct gsp_memory_peak peak = gsp_report__memory_peak(report);
    if (peak.bytes < 0)
        return;
    gsp_buf_puts(out, "Peak of a process: ");
    put_bytes(peak.bytes, out);
    if (peak.time_ns >= 0) {
        gsp_buf_puts(out, " at ");
        put_duration(peak.time_ns, out);
    }
    if (peak.rss_bytes >= 0) {
        gsp_buf_puts(out, "; resident at most ");
        put_bytes(peak.rss_bytes, out);
    }
}

void gsp_report__memory_put_huge(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    const struct gsp_memlog_meta *meta = gsp_memlog_meta(report->log);
    const struct gsp_memory_peak peak = gsp_report__memory_peak(report);
    if (peak.huge_bytes <= 0)
        return;
    put_bytes(peak.huge_bytes, out);
    gsp_buf_printf(out, " in huge pages (transparent_hugepage: %s)",
                   meta->huge_setting[0] ? meta->huge_setting : "unknown");
}

/* Appends a line to the head, unless it is empty, and clears it. */
static void put_head_line(struct gsp_buf *line, struct gsp_buf *out)
{
    if (line->len > 0) {
        gsp_buf_putsv(out, gsp_buf_sv(line));
        gsp_buf_putc(out, '\n');
    }
    gsp_buf_clear(line);
}

static void put_head(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    const struct gsp_memlog_meta *meta = gsp_memlog_meta(report->log);
    gsp_auto_buf line = {0};
    gsp_model_command_put(gsp_memlog_profile(report->log), &line);
    put_duration(meta->duration_ns, out);
    gsp_buf_puts(out, " of ");
    gsp_buf_term(out, gsp_buf_sv(&line));
    gsp_buf_printf(out, ", %s\n", gsp_report__memory_is_exact(report) ? "exact" : "sampled");
    gsp_buf_clear(&line);
    gsp_report__memory_put_peak(report, &line);
    put_head_line(&line, out);
    gsp_report__memory_put_huge(report, &line);
    put_head_line(&line, out);
    if (meta->truncated)
        gsp_buf_puts(out, "The end of the file is missing\n");
}

size_t gsp_report__memory_process_count(const struct gsp_memory_view *report)
{
    size_t count = 0;
    while (gsp_memlog_process(report->log, count))
        count++;
    return count;
}

void gsp_report__memory_put_view(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    const struct gsp_memlog_view_spec *question = &report->question;
    const size_t processes = gsp_report__memory_process_count(report);
    switch (question->view) {
    case GSP_MEMVIEW_PEAK:
        /* Each process has its peak at another time. */
        if (processes > 1)
            gsp_buf_printf(out, "Held at the peaks of %zu processes", processes);
        else
            gsp_buf_puts(out, "Held at the peak");
        break;
    case GSP_MEMVIEW_AT:
        gsp_buf_puts(out, "Held at ");
        put_duration(question->to_ns, out);
        break;
    case GSP_MEMVIEW_DIFF:
        gsp_buf_puts(out, "Grown between ");
        put_duration(question->from_ns, out);
        gsp_buf_puts(out, " and ");
        put_duration(question->to_ns, out);
        break;
    case GSP_MEMVIEW_LEAKS:
        gsp_buf_puts(out, "Keeps growing");
        break;
    case GSP_MEMVIEW_TEMPORARY:
        gsp_buf_puts(out, "Allocated and freed between two snapshots");
        break;
    }
}

void gsp_report__memory_put_total(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    put_bytes(report->rows.all.bytes, out);
    const double error = gsp_memlog_value_error(&report->rows.all);
    if (error > 0) {
        gsp_buf_puts(out, " (estimated, +- ");
        put_bytes((int64_t)(2 * error), out);
        gsp_buf_puts(out, " with 95 % confidence)");
    }
    gsp_buf_puts(out, " in ");
    const int64_t count = report->rows.all.count;
    gsp_buf_puts(out, count < 0 ? "-" : "");
    gsp_model_count_put((uint64_t)(count < 0 ? -count : count), out);
    gsp_buf_puts(out, count == 1 ? " block" : " blocks");
}

static void put_question(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    gsp_report__memory_put_view(report, out);
    gsp_buf_puts(out, ": ");
    gsp_report__memory_put_total(report, out);
    gsp_buf_puts(out, "\n\n");
}

/* If the row's line is in a library, a note names the line of the program that called it. */
static void end_row(const struct gsp_memory_view *report, uint32_t stack,
                    struct gsp_report_grid *grid)
{
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    const uint32_t caller =
        report->groups.by == GSP_MEMBY_LINE ? gsp_memlog_group_caller(profile, stack) : GSP_NONE;
    if (caller != GSP_NONE) {
        gsp_buf_puts(&grid->cell, "from ");
        gsp_model_frame_label(&(struct gsp_view_options){0}, profile, caller, &grid->cell);
    }
    gsp_report_grid_row(grid);
}

static void add_row(const struct gsp_memory_view *report, const struct gsp_memlog_row *row,
                    struct gsp_report_grid *grid)
{
    const double error = gsp_memlog_value_error(&row->value);
    const double all = (double)report->rows.all.bytes;
    put_bytes(row->value.bytes, &grid->cell);
    gsp_report_grid_cell(grid);
    if (error > 0)
        put_bytes((int64_t)(2 * error), &grid->cell);
    gsp_report_grid_cell(grid);
    if (report->question.view != GSP_MEMVIEW_DIFF && all > 0)
        gsp_model_percent_put(100 * (double)row->value.bytes / all, &grid->cell);
    gsp_report_grid_cell(grid);
    gsp_buf_printf(&grid->cell, "%" PRId64, row->value.count);
    gsp_report_grid_cell(grid);
    gsp_memlog_group_name(&report->groups, report->log, row->group, &grid->cell);
    gsp_report_grid_cell(grid);
    end_row(report, row->stack, grid);
}

static const struct gsp_memlog_row *row_of(const struct gsp_memory_view *report, uint32_t group)
{
    for (size_t i = 0; i < report->rows.count; i++)
        if (report->rows.at[i].group == group)
            return &report->rows.at[i];
    return NULL;
}

static void add_leak(const struct gsp_memory_view *report, const struct gsp_memlog_leak *leak,
                     struct gsp_report_grid *grid)
{
    const struct gsp_memlog_row *row = row_of(report, leak->group);
    put_bytes((int64_t)leak->bytes_per_s, &grid->cell);
    gsp_buf_puts(&grid->cell, "/s");
    gsp_report_grid_cell(grid);
    if (isfinite(leak->bytes_per_step))
        put_bytes((int64_t)leak->bytes_per_step, &grid->cell);
    gsp_report_grid_cell(grid);
    put_bytes(leak->live_bytes, &grid->cell);
    gsp_report_grid_cell(grid);
    gsp_memlog_group_name(&report->groups, report->log, leak->group, &grid->cell);
    gsp_report_grid_cell(grid);
    end_row(report, row ? row->stack : GSP_NONE, grid);
}

static void put_leaks(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    const struct gsp_memlog_leaks *leaks = &report->values.leaks;
    if (leaks->stretches < GSP_MEMLOG_LEAK_WINDOWS_MIN) {
        gsp_buf_printf(out, "Too short to detect growth: %zu of %u intervals\n", leaks->stretches,
                       GSP_MEMLOG_LEAK_WINDOWS_MIN);
        return;
    }
    if (leaks->count == 0) {
        gsp_buf_puts(out, "Nothing keeps growing\n");
        return;
    }
    put_question(report, out);
    struct gsp_report_grid grid = {
        .column_count = 4,
        .columns = {{"growth", GSP_REPORT_GRID_NUMBER, 12},
                    {"per step", GSP_REPORT_GRID_NUMBER, 8},
                    {"held", GSP_REPORT_GRID_NUMBER, 8},
                    {gsp_memlog_group_by_name(report->groups.by), GSP_REPORT_GRID_TEXT, 0}}};
    for (size_t i = 0; i < leaks->count && (report->limit == 0 || i < report->limit); i++)
        add_leak(report, &leaks->at[i], &grid);
    gsp_report_grid_text(&grid, report->width, out);
    gsp_report_grid_free(&grid);
}

void gsp_report_memory_text(const struct gsp_memory_view *report, struct gsp_buf *out)
{
    put_head(report, out);
    if (report->question.view == GSP_MEMVIEW_LEAKS) {
        put_leaks(report, out);
        return;
    }
    put_question(report, out);
    struct gsp_report_grid grid = {
        .column_count = 5,
        .columns = {
            {"bytes", GSP_REPORT_GRID_NUMBER, 10},
            {gsp_report__memory_is_exact(report) ? "" : "+- 95 %", GSP_REPORT_GRID_NUMBER, 8},
            {"%", GSP_REPORT_GRID_NUMBER, 4},
            {"blocks", GSP_REPORT_GRID_NUMBER, 6},
            {gsp_memlog_group_by_name(report->groups.by), GSP_REPORT_GRID_TEXT, 0}}};
    const size_t count = report->rows.count;
    for (size_t i = 0; i < count && (report->limit == 0 || i < report->limit); i++)
        add_row(report, &report->rows.at[i], &grid);
    gsp_report_grid_text(&grid, report->width, out);
    gsp_report_grid_free(&grid);
    if (report->limit && count > report->limit)
        gsp_buf_printf(out, "... and %zu more\n", count - report->limit);
}
