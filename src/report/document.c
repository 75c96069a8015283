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
#define ROOM_FIRST       16U

struct gsp_report_text_block {
    struct gsp_report_text_block *next;
    size_t used;
    size_t cap;
    char bytes[];
};

int gsp_report__new(enum gsp_report_kind kind, const char *path, struct gsp_report **out,
                    struct gsp_err *err)
{
    struct gsp_report *digest = calloc(1, sizeof(*digest));
    *out = digest;
    if (!digest)
        return gsp_err_nomem(err);
    struct gsp_sv text = gsp_sv_of(path ? path : "");
    while (text.len > 1 && text.p[text.len - 1] == '/')
        text.len--;
    digest->kind = kind;
    digest->path = gsp_report__text_keep(digest, gsp_sv_of(path ? path : ""));
    digest->name = gsp_report__text_keep(digest, gsp_sv_basename(text));
    digest->title = digest->name;
    digest->duration_s = (double)NAN;
    digest->period_s = (double)NAN;
    digest->exit_status = GSP_NULL_I64;
    digest->memory = (struct gsp_report_memory){.peak_rss_bytes = (double)NAN,
                                                .growth_bytes_per_s = (double)NAN};
    return GSP_OK;
}

struct gsp_sv gsp_report__text_keep(struct gsp_report *digest, struct gsp_sv text)
{
    struct gsp_report_text_block *block = digest->texts;
    if (text.len == 0)
        return (struct gsp_sv){"", 0};
    if (!block || block->cap - block->used < text.len) {
        const size_t cap = text.len > TEXT_BLOCK_BYTES ? text.len : TEXT_BLOCK_BYTES;
        block = malloc(sizeof(*block) + cap);
        if (!block) {
            digest->no_memory = true;
            return (struct gsp_sv){"", 0};
        }
        *block = (struct gsp_report_text_block){.next = digest->texts, .cap = cap};
        digest->texts = block;
    }
    char *at = block->bytes + block->used;
    memcpy(at, text.p, text.len);
    block->used += text.len;
    return (struct gsp_sv){at, text.len};
}

struct gsp_sv gsp_report__text_keep_buf(struct gsp_report *digest, struct gsp_buf *text)
{
    digest->no_memory = digest->no_memory || text->failed;
    const struct gsp_sv kept = gsp_report__text_keep(digest, gsp_buf_sv(text));
    gsp_buf_clear(text);
    return kept;
}

struct gsp_sv gsp_report__text_printf(struct gsp_report *digest, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return gsp_report__text_keep(digest, gsp_sv_of(text));
}

void *gsp_report_array_grow(struct gsp_report *digest, void *array, size_t count, size_t size)
{
    if (count != 0 && (count < ROOM_FIRST || (count & (count - 1)) != 0))
        return array;
    void *more = reallocarray(array, count == 0 ? ROOM_FIRST : 2 * count, size);
    digest->no_memory = digest->no_memory || !more;
    return more;
}

void gsp_report__fact_add(struct gsp_report *digest, struct gsp_sv name, struct gsp_sv value)
{
    struct gsp_report_fact *more =
        gsp_report_array_grow(digest, digest->facts, digest->fact_count, sizeof(*digest->facts));
    if (!more)
        return;
    digest->facts = more;
    more[digest->fact_count++] = (struct gsp_report_fact){name, value};
}

void gsp_report__card_add(struct gsp_report *digest, struct gsp_report_card card,
                          struct gsp_buf *value, struct gsp_buf *detail)
{
    struct gsp_report_card *more =
        gsp_report_array_grow(digest, digest->cards, digest->card_count, sizeof(*digest->cards));
    if (!more)
        return;
    digest->cards = more;
    card.value = gsp_report__text_keep_buf(digest, value);
    card.detail = gsp_report__text_keep_buf(digest, detail);
    more[digest->card_count++] = card;
}

void gsp_report__verdict_add(struct gsp_report *digest, struct gsp_buf *text)
{
    if (text->len == 0 || digest->verdict_count >= GSP_VERDICT_LINES_MAX)
        return;
    struct gsp_sv *more = gsp_report_array_grow(digest, digest->verdict, digest->verdict_count,
                                                sizeof(*digest->verdict));
    if (!more)
        return;
    digest->verdict = more;
    more[digest->verdict_count++] = gsp_report__text_keep_buf(digest, text);
}

void gsp_report__loss_add(struct gsp_report *digest, struct gsp_sv what, struct gsp_sv why,
                          uint64_t count)
{
    if (count == 0)
        return;
    struct gsp_report_loss *more =
        gsp_report_array_grow(digest, digest->losses, digest->loss_count, sizeof(*digest->losses));
    if (!more)
        return;
    digest->losses = more;
    more[digest->loss_count++] = (struct gsp_report_loss){what, why, count};
}

struct gsp_report_chart *gsp_report__chart_add(struct gsp_report *digest, struct gsp_sv id)
{
    struct gsp_report_chart *more =
        gsp_report_array_grow(digest, digest->charts, digest->chart_count, sizeof(*digest->charts));
    if (!more)
        return NULL;
    digest->charts = more;
    more[digest->chart_count] = (struct gsp_report_chart){.id = id, .title = id, .help = ""};
    return &more[digest->chart_count++];
}

struct gsp_report_series *gsp_report__series_add(struct gsp_report *digest,
                                                 struct gsp_report_chart *chart, struct gsp_sv name)
{
    struct gsp_report_series *more =
        gsp_report_array_grow(digest, chart->series, chart->series_count, sizeof(*chart->series));
    if (!more)
        return NULL;
    chart->series = more;
    more[chart->series_count] =
        (struct gsp_report_series){.name = name, .pid = GSP_NULL_I64, .rank = GSP_NULL_I64};
    return &more[chart->series_count++];
}

void gsp_report__series_add_point(struct gsp_report *digest, struct gsp_report_series *series,
                                  double t, double v)
{
    double *times = gsp_report_array_grow(digest, series->t, series->count, sizeof(*times));
    if (!times)
        return;
    series->t = times;
    double *values = gsp_report_array_grow(digest, series->v, series->count, sizeof(*values));
    if (!values)
        return;
    series->v = values;
    times[series->count] = t;
    values[series->count++] = isfinite(v) ? v : (double)NAN;
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

static void free_charts(struct gsp_report *digest)
{
    for (size_t i = 0; i < digest->chart_count; i++) {
        for (size_t k = 0; k < digest->charts[i].series_count; k++)
            gsp_report__series_free(&digest->charts[i].series[k]);
        free(digest->charts[i].series);
    }
    free(digest->charts);
}

void gsp_report_free(struct gsp_report *digest)
{
    if (!digest)
        return;
    free_charts(digest);
    for (size_t i = 0; i < digest->module_count; i++)
        free(digest->modules[i].values);
    for (size_t i = 0; i < digest->memory.site_count; i++)
        free(digest->memory.sites[i].frames);
    void *const arrays[] = {digest->facts,           digest->cards,
                            digest->verdict,         digest->stacks.threads,
                            digest->stacks.frames,   digest->stacks.nodes,
                            digest->stacks.samples,  digest->stacks.functions,
                            digest->modules,         digest->steps,
                            digest->ranks,           digest->span_names,
                            digest->spans,           digest->site_frames,
                            digest->memory.sites,    digest->losses,
                            digest->stacks.processes};
    for (size_t i = 0; i < GSP_COUNT(arrays); i++)
        free(arrays[i]);
    while (digest->texts) {
        struct gsp_report_text_block *next = digest->texts->next;
        free(digest->texts);
        digest->texts = next;
    }
    gsp_model_profile_free(digest->profile);
    free(digest);
}

const struct gsp_report_chart *gsp_report_chart_named(const struct gsp_report *digest,
                                                      struct gsp_sv id)
{
    for (size_t i = 0; i < digest->chart_count; i++)
        if (gsp_sv_eq(digest->charts[i].id, id))
            return &digest->charts[i];
    return NULL;
}

const struct gsp_report_chart *gsp_report_chart_find(const struct gsp_report *digest,
                                                     const char *id)
{
    return gsp_report_chart_named(digest, gsp_sv_of(id));
}
