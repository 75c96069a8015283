/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "model/format.h"
#include "report/cards.h"
#include "report/document_internal.h"
#include "report/memory_view.h"

/* Rows that the verdict names. */
#define NAMES_MAX 3U
/* Rows with less than this share are not named. */
#define SHARE_MIN 0.01

/* -------------------------------------------------------------------------------------- facts */

static void add_facts(struct gsp_report *document, const struct gsp_memory_view *report)
{
    const struct gsp_memlog_process *first = gsp_memlog_process(report->log, 0);
    const size_t processes = gsp_report__memory_process_count(report);
    gsp_auto_buf text = {0};
    gsp_model_command_put(gsp_memlog_profile(report->log), &text);
    document->command = gsp_report__text_keep_buf(document, &text);
    document->title = gsp_report__program_name(document->command);
    gsp_report__facts_add_origin(document);
    gsp_report__fact_add(document, gsp_sv_of("Recording"), document->name);
    gsp_buf_puts(&text, gsp_report__memory_is_exact(report) ? "every allocation" : "sampled");
    if (processes == 1 && first->interval_bytes > 0) {
        gsp_buf_puts(&text, ", one sample every ");
        gsp_model_bytes_put((double)first->interval_bytes, &text);
    }
    gsp_report__fact_add(document, gsp_sv_of("Allocations"),
                         gsp_report__text_keep_buf(document, &text));
    if (processes > 1)
        gsp_report__fact_add(document, gsp_sv_of("Processes"),
                             gsp_report__text_printf(document, "%zu", processes));
    gsp_report__memory_put_view(report, &text);
    gsp_report__fact_add(document, gsp_sv_of("View"), gsp_report__text_keep_buf(document, &text));
    gsp_report__memory_put_huge(report, &text);
    if (text.len > 0)
        gsp_report__fact_add(document, gsp_sv_of("Huge pages"),
                             gsp_report__text_keep_buf(document, &text));
}

static void add_losses(struct gsp_report *document, const struct gsp_memory_view *report)
{
    const struct gsp_memlog_meta *meta = gsp_memlog_meta(report->log);
    const size_t processes = gsp_report__memory_process_count(report);
    uint64_t *lost = calloc(processes + 1, sizeof(*lost)); /* the counts only rise */
    uint64_t sum = 0;
    document->no_memory = document->no_memory || !lost;
    for (size_t i = 0; lost && i < gsp_memlog_tick_count(report->log); i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_tick(report->log, i);
        if (tick->total[GSP_MEMTOTAL_LOST] > 0)
            lost[tick->process] = (uint64_t)tick->total[GSP_MEMTOTAL_LOST];
    }
    for (size_t i = 0; lost && i < processes; i++)
        sum += lost[i];
    free(lost);
    gsp_report__loss_add(document, gsp_sv_of("allocations"), gsp_sv_of("not counted completely"),
                         sum);
    if (meta->truncated)
        gsp_report__loss_add(document, gsp_sv_of("file"), gsp_sv_of("its end is missing"), 1);
}

/* ------------------------------------------------------------------------------------- charts */

static const struct {
    enum gsp_memlog_total total;
    const char *id;
    const char *title;
    const char *help;
} CHARTS[] = {
    {GSP_MEMTOTAL_LIVE, "live", "Live allocations",
     "Bytes that each process has allocated and not freed. A line that rises to the end may be a "
     "leak."},
    {GSP_MEMTOTAL_RSS, "rss", "Memory of the processes",
     "Resident memory of each process. It exceeds the live allocations by code, caches and memory "
     "that the allocator keeps."},
    {GSP_MEMTOTAL_PYTHON, "python", "Python objects",
     "Live allocations of the interpreter's allocators."},
    {GSP_MEMTOTAL_DEVICE, "device", "GPU memory of PyTorch",
     "Bytes that PyTorch's caching allocator has handed out on the GPU."},
};

static bool add_lines(struct gsp_report *document, struct gsp_report_chart *chart,
                      const struct gsp_memlog *log)
{
    const struct gsp_profile *profile = gsp_memlog_profile(log);
    for (uint32_t i = 0; gsp_memlog_process(log, i); i++) {
        const struct gsp_process *process = gsp_model_profile_process_at(profile, i);
        gsp_auto_buf name = {0};
        gsp_buf_putsv(
            &name, gsp_report__program_name(gsp_model_profile_string_at(profile, process->name)));
        gsp_buf_printf(&name, " (%" PRId32 ")", process->pid);
        struct gsp_report_series *series =
            gsp_report__series_add(document, chart, gsp_report__text_keep_buf(document, &name));
        if (!series)
            return false;
        series->pid = process->pid;
    }
    return true;
}

static void add_charts(struct gsp_report *document, const struct gsp_memlog *log)
{
    for (size_t k = 0; k < GSP_COUNT(CHARTS); k++) {
        struct gsp_report_chart *chart = gsp_report__chart_add(document, gsp_sv_of(CHARTS[k].id));
        if (!chart || !add_lines(document, chart, log))
            return;
        chart->title = gsp_sv_of(CHARTS[k].title);
        chart->unit = gsp_sv_of("bytes");
        chart->help = CHARTS[k].help;
        for (size_t i = 0; i < gsp_memlog_tick_count(log); i++) {
            const struct gsp_memlog_tick *tick = gsp_memlog_tick(log, i);
            const int64_t bytes = tick->total[CHARTS[k].total];
            /* What an interpreter frees while it exits is not part of the trend. */
            if (!tick->is_gone && !tick->is_final && bytes != GSP_MEMLOG_UNKNOWN)
                gsp_report__series_add_point(document, &chart->series[tick->process],
                                             (double)tick->time_ns / (double)GSP_NS_PER_S,
                                             (double)bytes);
        }
        gsp_report__chart_finish(document, chart);
    }
}

/* -------------------------------------------------------------------------------------- sites */

/* A call stack and the sum of its sites. */
struct held {
    uint32_t stack;
    int64_t bytes;
    int64_t count;
};

static int by_bytes(const void *a, const void *b)
{
    const struct held *x = a;
    const struct held *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->stack > y->stack) - (x->stack < y->stack);
}

/* From the outermost frame on. Returns false if out of memory. */
static bool add_frames(struct gsp_report *document, struct gsp_report_site *site,
                       const struct gsp_profile *profile, uint32_t stack)
{
    gsp_auto_buf path = {0}; /* uint32_t, from the innermost on */
    for (; stack != GSP_NONE; stack = gsp_model_profile_stack_caller(profile, stack))
        gsp_buf_put(&path, &stack, sizeof(stack));
    for (size_t i = path.len / sizeof(stack); !path.failed && i-- > 0;) {
        memcpy(&stack, path.p + i * sizeof(stack), sizeof(stack));
        const struct gsp_frame *frame =
            gsp_model_profile_frame_at(profile, gsp_model_profile_stack_frame(profile, stack));
        const struct gsp_report_frame frame_row = {
            .func = gsp_model_profile_string_at(profile, frame->name),
            .file = gsp_model_profile_string_at(profile, frame->file),
            .line = frame->line,
            .kind = frame->kind};
        if (!gsp_report__site_add_frame(document, site, frame_row))
            return false;
    }
    return !path.failed;
}

static bool add_site(struct gsp_report *document, const struct gsp_profile *profile,
                     const struct held *held)
{
    struct gsp_report_memory *memory = &document->memory;
    if (!gsp_report__array_fit(document, &memory->sites, memory->site_count))
        return false;
    memory->sites[memory->site_count] =
        (struct gsp_report_site){.bytes = (double)held->bytes, .count = (double)held->count};
    return add_frames(document, &memory->sites[memory->site_count++], profile, held->stack);
}

/* Sites with negative growth are left out: a graph cannot show them. */
static int add_sites(struct gsp_report *document, const struct gsp_memory_view *report,
                     struct gsp_err *err)
{
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    const size_t stacks = gsp_model_profile_stack_count(profile);
    struct held *held = calloc(stacks + 1, sizeof(*held));
    size_t count = 0;
    if (!held)
        return gsp_err_nomem(err);
    for (uint32_t i = 0; i <= stacks; i++)
        held[i].stack = i;
    for (size_t i = 0; i < report->values.count; i++) {
        const struct gsp_memlog_value *value = &report->values.at[i];
        struct held *at = &held[gsp_memlog_site(report->log, i)->stack];
        if (value->bytes > 0) {
            at->bytes += value->bytes;
            at->count += value->count;
        }
    }
    qsort(held, stacks + 1, sizeof(*held), by_bytes);
    bool ok = true;
    for (; ok && count <= stacks && held[count].bytes > 0; count++)
        if (!report->limit || count < report->limit)
            ok = add_site(document, profile, &held[count]);
    free(held);
    if (count > document->memory.site_count)
        gsp_report__fact_add(document, gsp_sv_of("Call stacks"),
                             gsp_report__text_printf(document, "the largest %zu of %zu",
                                                     document->memory.site_count, count));
    return ok ? GSP_OK : gsp_err_nomem(err);
}

/* ------------------------------------------------------------------------------------ verdict */

static void put_group(const struct gsp_memory_view *report, uint32_t group, struct gsp_buf *out)
{
    gsp_memlog_group_name(&report->groups, report->log, group, out);
    gsp_buf_putc(out, ' ');
}

static void add_largest(struct gsp_report *document, const struct gsp_memory_view *report)
{
    const double all = (double)report->rows.all.bytes;
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < report->rows.count && i < NAMES_MAX; i++) {
        const struct gsp_memlog_row *row = &report->rows.at[i];
        if (!(all > 0) || (double)row->value.bytes < SHARE_MIN * all)
            break;
        gsp_buf_puts(&text, i ? ", " : "Most of it: ");
        put_group(report, row->group, &text);
        gsp_model_share_put((double)row->value.bytes, all, &text);
    }
    gsp_report__verdict_add(document, &text);
}

static void add_leaks(struct gsp_report *document, const struct gsp_memory_view *report,
                      const struct gsp_memlog_leaks *leaks)
{
    const bool is_known = leaks->stretches >= GSP_MEMLOG_LEAK_WINDOWS_MIN;
    gsp_auto_buf value = {0};
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < leaks->count && i < NAMES_MAX; i++) {
        gsp_buf_puts(&text, i ? ", " : "Keeps growing: ");
        put_group(report, leaks->at[i].group, &text);
        gsp_buf_puts(&text, "by ");
        gsp_model_bytes_put(leaks->at[i].bytes_per_s, &text);
        gsp_buf_puts(&text, "/s");
    }
    if (leaks->count > NAMES_MAX)
        gsp_buf_printf(&text, " and %zu more", leaks->count - NAMES_MAX);
    if (leaks->count == 0)
        gsp_buf_puts(&text, is_known ? "Nothing keeps growing" : "Too short to detect growth");
    gsp_report__verdict_add(document, &text);
    if (!is_known)
        return;
    gsp_model_count_put(leaks->count, &value);
    gsp_buf_puts(&text, leaks->count == 1 ? "row that keeps growing" : "rows that keep growing");
    gsp_report__card_add(document,
                         (struct gsp_report_card){.id = "leaks",
                                                  .title = "Leaks",
                                                  .tone = leaks->count ? GSP_REPORT_TONE_WARN
                                                                       : GSP_REPORT_TONE_GOOD},
                         &value, &text);
}

static void add_peak(struct gsp_report *document, const struct gsp_memory_view *report)
{
    const struct gsp_memory_peak peak = gsp_report__memory_peak(report);
    gsp_auto_buf value = {0};
    gsp_auto_buf text = {0};
    gsp_report__memory_put_peak(report, &text);
    gsp_report__verdict_add(document, &text);
    if (peak.bytes < 0)
        return;
    gsp_model_bytes_put((double)peak.bytes, &value);
    gsp_buf_puts(&text, "highest of a process");
    if (peak.time_ns >= 0) {
        gsp_buf_puts(&text, ", at ");
        gsp_model_seconds_put((double)peak.time_ns / (double)GSP_NS_PER_S, &text);
    }
    gsp_report__card_add(
        document, (struct gsp_report_card){.id = "live", .title = "Peak allocated"}, &value, &text);
}

static void add_total(struct gsp_report *document, const struct gsp_memory_view *report)
{
    gsp_auto_buf value = {0};
    gsp_auto_buf text = {0};
    gsp_report__memory_put_view(report, &text);
    gsp_buf_puts(&text, ": ");
    gsp_report__memory_put_total(report, &text);
    gsp_report__verdict_add(document, &text);
    if (report->question.view == GSP_MEMVIEW_PEAK)
        return;
    gsp_model_bytes_put((double)report->rows.all.bytes, &value);
    gsp_report__memory_put_view(report, &text);
    gsp_report__card_add(document, (struct gsp_report_card){.id = "view", .title = "This view"},
                         &value, &text);
}

static int judge(struct gsp_report *document, const struct gsp_memory_view *report,
                 struct gsp_err *err)
{
    struct gsp_memlog_leaks leaks = {0};
    gsp_auto_buf text = {0};
    int rc = gsp_memlog_leaks_find(report->log, &report->groups, &leaks, err);
    if (rc == GSP_OK)
        rc = gsp_report__rss_fill(document, err);
    if (rc == GSP_OK) {
        add_peak(document, report);
        if (report->question.view != GSP_MEMVIEW_LEAKS) {
            add_total(document, report);
            add_largest(document, report);
        }
        add_leaks(document, report, &leaks);
        gsp_report__losses_put(document, &text);
        if (text.len == 0)
            gsp_buf_puts(&text, "Nothing was lost");
        gsp_report__verdict_add(document, &text);
        gsp_report__cards_add_memory(document);
    }
    gsp_memlog_leaks_free(&leaks);
    return rc;
}

int gsp_report_memory_document(const struct gsp_memory_view *report, struct gsp_report **out,
                               struct gsp_err *err)
{
    const struct gsp_memlog_meta *meta = gsp_memlog_meta(report->log);
    struct gsp_report *document = NULL;
    *out = NULL;
    int rc = gsp_report__new(GSP_REPORT_MEMORY, report->path, &document, err);
    if (rc < 0)
        return rc;
    document->has_losses = true;
    document->start_ns = meta->start_ns;
    document->duration_s = (double)meta->duration_ns / (double)GSP_NS_PER_S;
    add_facts(document, report);
    add_losses(document, report);
    add_charts(document, report->log);
    rc = add_sites(document, report, err);
    if (rc == GSP_OK)
        rc = judge(document, report, err);
    if (rc == GSP_OK && document->no_memory)
        rc = gsp_err_nomem(err);
    if (rc < 0) {
        gsp_report_free(document);
        return rc;
    }
    *out = document;
    return GSP_OK;
}
