/* SPDX-License-Identifier: Apache-2.0 */
#include "report/document.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/document_internal.h"
#include "report/verdict.h"

#define TEXT_BLOCK_BYTES ((size_t)64 << 10)

struct gsp_report_text_block {
    struct gsp_report_text_block *next;
    size_t used;
    size_t cap;
    char bytes[];
};

int gsp_report__new(enum gsp_report_kind kind, const char *path, struct gsp_report **out,
                    struct gsp_err *err)
{
    struct gsp_report *report = calloc(1, sizeof(*report));
    *out = report;
    if (!report)
        return gsp_err_nomem(err);
    struct gsp_sv text = gsp_sv_of(path ? path : "");
    while (text.len > 1 && text.p[text.len - 1] == '/')
        text.len--;
    report->kind = kind;
    report->path = gsp_report__text_keep(report, gsp_sv_of(path ? path : ""));
    report->name = gsp_report__text_keep(report, gsp_sv_basename(text));
    report->title = report->name;
    report->duration_s = (double)NAN;
    report->period_s = (double)NAN;
    report->exit_status = GSP_NULL_I64;
    report->memory = (struct gsp_report_memory){.peak_rss_bytes = (double)NAN,
                                                .growth_bytes_per_s = (double)NAN};
    return GSP_OK;
}

struct gsp_sv gsp_report__text_keep(struct gsp_report *report, struct gsp_sv text)
{
    struct gsp_report_text_block *block = report->texts;
    if (text.len == 0)
        return (struct gsp_sv){"", 0};
    if (!block || block->cap - block->used < text.len) {
        const size_t cap = text.len > TEXT_BLOCK_BYTES ? text.len : TEXT_BLOCK_BYTES;
        block = malloc(sizeof(*block) + cap);
        if (!block) {
            report->no_memory = true;
            return (struct gsp_sv){"", 0};
        }
        *block = (struct gsp_report_text_block){.next = report->texts, .cap = cap};
        report->texts = block;
    }
    char *at = block->bytes + block->used;
    memcpy(at, text.p, text.len);
    block->used += text.len;
    return (struct gsp_sv){at, text.len};
}

struct gsp_sv gsp_report__text_keep_buf(struct gsp_report *report, struct gsp_buf *text)
{
    report->no_memory = report->no_memory || text->failed;
    const struct gsp_sv kept = gsp_report__text_keep(report, gsp_buf_sv(text));
    gsp_buf_clear(text);
    return kept;
}

struct gsp_sv gsp_report__text_printf(struct gsp_report *report, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return gsp_report__text_keep(report, gsp_sv_of(text));
}

void gsp_report__fact_add(struct gsp_report *report, struct gsp_sv name, struct gsp_sv value)
{
    if (!gsp_report__array_fit(report, &report->facts, report->fact_count))
        return;
    report->facts[report->fact_count++] = (struct gsp_report_fact){name, value};
}

void gsp_report__card_add(struct gsp_report *report, struct gsp_report_card card,
                          struct gsp_buf *value, struct gsp_buf *detail)
{
    if (!gsp_report__array_fit(report, &report->cards, report->card_count))
        return;
    card.value = gsp_report__text_keep_buf(report, value);
    card.detail = gsp_report__text_keep_buf(report, detail);
    report->cards[report->card_count++] = card;
}

void gsp_report__verdict_add(struct gsp_report *report, struct gsp_buf *text)
{
    if (text->len == 0 || report->verdict_count >= GSP_VERDICT_LINES_MAX)
        return;
    if (!gsp_report__array_fit(report, &report->verdict, report->verdict_count))
        return;
    report->verdict[report->verdict_count++] = gsp_report__text_keep_buf(report, text);
}

void gsp_report__loss_add(struct gsp_report *report, struct gsp_sv what, struct gsp_sv why,
                          uint64_t count)
{
    if (count == 0)
        return;
    if (!gsp_report__array_fit(report, &report->losses, report->loss_count))
        return;
    report->losses[report->loss_count++] = (struct gsp_report_loss){what, why, count};
}

struct gsp_report_chart *gsp_report__chart_add(struct gsp_report *report, struct gsp_sv id)
{
    if (!gsp_report__array_fit(report, &report->charts, report->chart_count))
        return NULL;
    report->charts[report->chart_count] =
        (struct gsp_report_chart){.id = id, .title = id, .help = ""};
    return &report->charts[report->chart_count++];
}

struct gsp_report_series *gsp_report__series_add(struct gsp_report *report,
                                                 struct gsp_report_chart *chart, struct gsp_sv name)
{
    if (!gsp_report__array_fit(report, &chart->series, chart->series_count))
        return NULL;
    chart->series[chart->series_count] =
        (struct gsp_report_series){.name = name, .pid = GSP_NULL_I64, .rank = GSP_NULL_I64};
    return &chart->series[chart->series_count++];
}

void gsp_report__series_add_point(struct gsp_report *report, struct gsp_report_series *series,
                                  double t, double v)
{
    if (!gsp_report__array_fit(report, &series->t, series->count))
        return;
    if (!gsp_report__array_fit(report, &series->v, series->count))
        return;
    series->t[series->count] = t;
    series->v[series->count++] = isfinite(v) ? v : (double)NAN;
}

void gsp_report__series_compute_stats(struct gsp_report_series *series)
{
    struct gsp_report_stats stats = {
        .mean = (double)NAN, .std = (double)NAN, .min = (double)NAN, .max = (double)NAN};
    double mean = 0;
    double square = 0;
    for (size_t i = 0; i < series->count; i++) {
        const double v = series->v[i];
        if (isnan(v))
            continue;
        /* Welford's method: it does not subtract large sums. */
        const double delta = v - mean;
        stats.count++;
        mean += delta / (double)stats.count;
        square += delta * (v - mean);
        stats.min = stats.min <= v ? stats.min : v;
        stats.max = stats.max >= v ? stats.max : v;
    }
    if (stats.count > 0)
        stats.mean = mean;
    if (stats.count > 1)
        stats.std = sqrt(square / (double)(stats.count - 1));
    series->stats = stats;
}

void gsp_report__series_free(struct gsp_report_series *series)
{
    free(series->t);
    free(series->v);
    *series = (struct gsp_report_series){0};
}

static void free_charts(struct gsp_report *report)
{
    for (size_t i = 0; i < report->chart_count; i++) {
        for (size_t k = 0; k < report->charts[i].series_count; k++)
            gsp_report__series_free(&report->charts[i].series[k]);
        free(report->charts[i].series);
    }
    free(report->charts);
}

void gsp_report_free(struct gsp_report *report)
{
    if (!report)
        return;
    free_charts(report);
    for (size_t i = 0; i < report->module_count; i++)
        free(report->modules[i].values);
    for (size_t i = 0; i < report->memory.site_count; i++)
        free(report->memory.sites[i].frames);
    void *const arrays[] = {report->facts,           report->cards,
                            report->verdict,         report->stacks.threads,
                            report->stacks.frames,   report->stacks.nodes,
                            report->stacks.samples,  report->stacks.functions,
                            report->modules,         report->steps,
                            report->ranks,           report->span_names,
                            report->spans,           report->site_frames,
                            report->memory.sites,    report->losses,
                            report->stacks.processes};
    for (size_t i = 0; i < GSP_COUNT(arrays); i++)
        free(arrays[i]);
    while (report->texts) {
        struct gsp_report_text_block *next = report->texts->next;
        free(report->texts);
        report->texts = next;
    }
    gsp_model_profile_free(report->profile);
    free(report);
}

const struct gsp_report_chart *gsp_report_chart_named(const struct gsp_report *report,
                                                      struct gsp_sv id)
{
    for (size_t i = 0; i < report->chart_count; i++)
        if (gsp_sv_eq(report->charts[i].id, id))
            return &report->charts[i];
    return NULL;
}

const struct gsp_report_chart *gsp_report_chart_find(const struct gsp_report *report,
                                                     const char *id)
{
    return gsp_report_chart_named(report, gsp_sv_of(id));
}
