/* SPDX-License-Identifier: Apache-2.0 */
#include "report/memory_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "model/format.h"
#include "model/tree.h"

#define CALLER_INDENT "                                  "

int gsp_memreport_open(struct gsp_memreport *report, const char *path, enum gsp_memlog_group_by by,
                       struct gsp_err *err)
{
    report->path = path;
    int rc = gsp_memlog_open(path, &report->log, err);
    if (rc == GSP_OK && gsp_memlog_tick_count(report->log) == 0)
        rc = gsp_err_set(err, GSP_E_EMPTY, 0, "%.180s ends before the first look at the counters",
                         path);
    if (rc == GSP_OK)
        rc = gsp_memlog_groups_create(&report->groups, report->log, by, err);
    return rc;
}

int gsp_memreport_ask(struct gsp_memreport *report, struct gsp_err *err)
{
    int rc = gsp_memlog_values_create(&report->values, report->log, &report->question,
                                      &report->groups, err);
    if (rc == GSP_OK)
        rc = gsp_memlog_rows_create(&report->rows, report->log, &report->values, &report->groups,
                                    err);
    return rc;
}

void gsp_memreport_close(struct gsp_memreport *report)
{
    gsp_memlog_rows_free(&report->rows);
    gsp_memlog_values_free(&report->values);
    gsp_memlog_groups_free(&report->groups);
    gsp_memlog_close(report->log);
    report->log = NULL;
}

const char *gsp_memreport_view_name(enum gsp_memlog_view view)
{
    static const char *const names[] = {
        [GSP_MEMVIEW_PEAK] = "peak",           [GSP_MEMVIEW_AT] = "at",
        [GSP_MEMVIEW_DIFF] = "diff",           [GSP_MEMVIEW_LEAKS] = "leaks",
        [GSP_MEMVIEW_TEMPORARY] = "temporary",
    };
    return names[view];
}

bool gsp_memreport_is_exact(const struct gsp_memreport *report)
{
    bool exact = true;
    for (size_t i = 0; gsp_memlog_process(report->log, i); i++)
        exact = exact && gsp_memlog_process(report->log, i)->mode == GSP_MEMORY_EXACT;
    return exact;
}

struct gsp_mempeak gsp_memreport_peak(const struct gsp_memreport *report)
{
    struct gsp_mempeak peak = {-1, -1, -1, -1};
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

static void put_right(struct gsp_buf *text, int width, struct gsp_buf *out)
{
    const char *p = gsp_buf_cstr(text);
    gsp_buf_printf(out, "%*s", width, p ? p : "");
    gsp_buf_clear(text);
}

static void put_duration(int64_t ns, struct gsp_buf *out)
{
    char text[32];
    gsp_buf_puts(out, gsp_fmt_duration(ns, text, sizeof(text)));
}

/* "12.3 s of python3 train.py, exact; peak 123 MiB at 3.2 s, RSS at most 200 MiB" */
static void put_head(const struct gsp_memreport *report, struct gsp_buf *out)
{
    const struct gsp_memlog_meta *meta = gsp_memlog_meta(report->log);
    const struct gsp_mempeak peak = gsp_memreport_peak(report);
    gsp_auto_buf command = {0};
    gsp_model_command_put(gsp_memlog_profile(report->log), &command);
    put_duration(meta->duration_ns, out);
    gsp_buf_puts(out, " of ");
    gsp_buf_term(out, gsp_buf_sv(&command));
    gsp_buf_printf(out, ", %s\n", gsp_memreport_is_exact(report) ? "exact" : "sampled");
    if (peak.bytes >= 0) {
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
        gsp_buf_putc(out, '\n');
    }
    if (peak.huge_bytes > 0) {
        put_bytes(peak.huge_bytes, out);
        gsp_buf_printf(out,
                       " of it in huge pages (transparent_hugepage: %s): it grows by a whole "
                       "one at a time\n",
                       meta->huge_setting[0] ? meta->huge_setting : "not known");
    }
    if (meta->truncated)
        gsp_buf_puts(out, "The file ends early: this is what was written until then.\n");
}

/* Sums of several processes are of several moments. */
static void put_peaks(const struct gsp_memreport *report, struct gsp_buf *out)
{
    size_t count = 0;
    while (gsp_memlog_process(report->log, count))
        count++;
    if (count > 1)
        gsp_buf_printf(out, "Held at the peaks of %zu processes, each at its own: ", count);
    else
        gsp_buf_puts(out, "Held at the peak: ");
}

static void put_question(const struct gsp_memreport *report, struct gsp_buf *out)
{
    const struct gsp_memlog_view_spec *question = &report->question;
    switch (question->view) {
    case GSP_MEMVIEW_PEAK:
        put_peaks(report, out);
        break;
    case GSP_MEMVIEW_AT:
        gsp_buf_puts(out, "Held at ");
        put_duration(question->to_ns, out);
        gsp_buf_puts(out, ": ");
        break;
    case GSP_MEMVIEW_DIFF:
        gsp_buf_puts(out, "Grown between ");
        put_duration(question->from_ns, out);
        gsp_buf_puts(out, " and ");
        put_duration(question->to_ns, out);
        gsp_buf_puts(out, ": ");
        break;
    case GSP_MEMVIEW_LEAKS:
        gsp_buf_puts(out, "Keeps growing: ");
        break;
    case GSP_MEMVIEW_TEMPORARY:
        gsp_buf_puts(out, "Allocated and freed again between two looks: ");
        break;
    }
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
    gsp_buf_puts(out, count == 1 ? " block\n\n" : " blocks\n\n");
}

/* A name, cut to what is left of the line. */
static void put_name(const struct gsp_memreport *report, struct gsp_sv name, size_t used,
                     struct gsp_buf *out)
{
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, name);
    size_t room = report->width > used + 8 ? report->width - used : 0;
    if (room == 0 || safe.len <= room) {
        gsp_buf_putsv(out, gsp_buf_sv(&safe));
    } else {
        size_t keep = room - 2;
        while (keep > 0 && ((unsigned char)safe.p[keep] & 0xc0) == 0x80)
            keep--;
        gsp_buf_put(out, safe.p, keep);
        gsp_buf_puts(out, "..");
    }
    gsp_buf_putc(out, '\n');
}

/* Where the program itself stands above a library's line. */
static void put_caller(const struct gsp_memreport *report, uint32_t stack, struct gsp_buf *out)
{
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    const uint32_t caller = gsp_memlog_group_caller(profile, stack);
    gsp_auto_buf label = {0};
    if (report->groups.by != GSP_MEMBY_LINE || caller == GSP_NONE)
        return;
    gsp_buf_puts(&label, "from ");
    gsp_model_frame_label(&(struct gsp_view_options){0}, profile, caller, &label);
    gsp_buf_puts(out, CALLER_INDENT);
    put_name(report, gsp_buf_sv(&label), strlen(CALLER_INDENT), out);
}

static void put_row(const struct gsp_memreport *report, const struct gsp_memlog_row *row,
                    struct gsp_buf *out)
{
    gsp_auto_buf cell = {0};
    const double error = gsp_memlog_value_error(&row->value);
    const double all = (double)report->rows.all.bytes;
    put_bytes(row->value.bytes, &cell);
    put_right(&cell, 10, out);
    if (error > 0)
        put_bytes((int64_t)(2 * error), &cell);
    put_right(&cell, 10, out);
    if (report->question.view != GSP_MEMVIEW_DIFF && all > 0)
        gsp_model_percent_put(100 * (double)row->value.bytes / all, &cell);
    put_right(&cell, 6, out);
    gsp_buf_printf(out, "%8" PRId64 "  ", row->value.count);
    gsp_memlog_group_name(&report->groups, report->log, row->group, &cell);
    put_name(report, gsp_buf_sv(&cell), strlen(CALLER_INDENT) + 2, out);
    put_caller(report, row->stack, out);
}

static const struct gsp_memlog_row *row_of(const struct gsp_memreport *report, uint32_t group)
{
    for (size_t i = 0; i < report->rows.count; i++)
        if (report->rows.at[i].group == group)
            return &report->rows.at[i];
    return NULL;
}

static void put_leak(const struct gsp_memreport *report, const struct gsp_memlog_leak *leak,
                     struct gsp_buf *out)
{
    gsp_auto_buf cell = {0};
    put_bytes((int64_t)leak->bytes_per_s, &cell);
    gsp_buf_puts(&cell, "/s");
    put_right(&cell, 12, out);
    if (isfinite(leak->bytes_per_step))
        put_bytes((int64_t)leak->bytes_per_step, &cell);
    put_right(&cell, 10, out);
    put_bytes(leak->live_bytes, &cell);
    put_right(&cell, 10, out);
    gsp_buf_puts(out, "  ");
    gsp_memlog_group_name(&report->groups, report->log, leak->group, &cell);
    put_name(report, gsp_buf_sv(&cell), strlen(CALLER_INDENT), out);
    const struct gsp_memlog_row *row = row_of(report, leak->group);
    if (row)
        put_caller(report, row->stack, out);
}

static void put_leaks(const struct gsp_memreport *report, struct gsp_buf *out)
{
    const struct gsp_memlog_leaks *leaks = &report->values.leaks;
    if (leaks->stretches < GSP_MEMLOG_LEAK_WINDOWS_MIN) {
        gsp_buf_printf(out, "Too short to tell: %zu look%s, and a trend needs %u.\n",
                       leaks->stretches, gsp_model_plural_s(leaks->stretches),
                       GSP_MEMLOG_LEAK_WINDOWS_MIN);
        return;
    }
    if (leaks->count == 0) {
        gsp_buf_puts(out, "Nothing keeps growing.\n");
        return;
    }
    put_question(report, out);
    gsp_buf_printf(out, "%12s%10s%10s  %s\n", "growth", "per step", "held",
                   gsp_memlog_group_by_name(report->groups.by));
    for (size_t i = 0; i < leaks->count && (report->limit == 0 || i < report->limit); i++)
        put_leak(report, &leaks->at[i], out);
}

void gsp_memreport_text(const struct gsp_memreport *report, struct gsp_buf *out)
{
    put_head(report, out);
    if (report->question.view == GSP_MEMVIEW_LEAKS) {
        put_leaks(report, out);
        return;
    }
    put_question(report, out);
    gsp_buf_printf(out, "%10s%10s%6s%8s  %s\n", "bytes",
                   gsp_memreport_is_exact(report) ? "" : "+- 95 %", "%", "blocks",
                   gsp_memlog_group_by_name(report->groups.by));
    const size_t count = report->rows.count;
    for (size_t i = 0; i < count && (report->limit == 0 || i < report->limit); i++)
        put_row(report, &report->rows.at[i], out);
    if (report->limit && count > report->limit)
        gsp_buf_printf(out, "... and %zu more\n", count - report->limit);
}
