/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "model/ids.h"
#include "report/decimate.h"
#include "report/document_write_internal.h"

static void put_i64_or_null(struct gsp_json *json, int64_t v)
{
    if (v == GSP_NULL_I64)
        gsp_json_null(json);
    else
        gsp_json_i64(json, v);
}

static void put_facts(struct gsp_json *json, const struct gsp_report *report)
{
    gsp_json_put_arr_begin(json, "facts");
    for (size_t i = 0; i < report->fact_count; i++) {
        gsp_json_obj_begin(json);
        gsp_json_put_sv(json, "name", report->facts[i].name);
        gsp_json_put_sv(json, "value", report->facts[i].value);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_cards(struct gsp_json *json, const struct gsp_report *report)
{
    static const char *const TONES[] = {[GSP_REPORT_TONE_PLAIN] = "plain",
                                        [GSP_REPORT_TONE_GOOD] = "good",
                                        [GSP_REPORT_TONE_WARN] = "warn",
                                        [GSP_REPORT_TONE_BAD] = "bad"};
    gsp_json_put_arr_begin(json, "cards");
    for (size_t i = 0; i < report->card_count; i++) {
        const struct gsp_report_card *card = &report->cards[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "id", card->id);
        gsp_json_put_str(json, "title", card->title);
        gsp_json_put_sv(json, "value", card->value);
        gsp_json_put_sv(json, "detail", card->detail);
        gsp_json_put_str(json, "tone", TONES[card->tone]);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_verdict(struct gsp_json *json, const struct gsp_report *report)
{
    gsp_json_put_arr_begin(json, "verdict");
    for (size_t i = 0; i < report->verdict_count; i++)
        gsp_json_sv(json, report->verdict[i]);
    gsp_json_arr_end(json);
}

/* Points per series: the more series, the fewer. */
static size_t points_max(const struct gsp_report *report)
{
    size_t lines = 1;
    for (size_t i = 0; i < report->chart_count; i++)
        lines += report->charts[i].series_count;
    const size_t each = GSP_REPORT_POINTS_ALL / lines;
    if (each < GSP_REPORT_POINTS_MIN)
        return GSP_REPORT_POINTS_MIN;
    return each < GSP_REPORT_POINTS_MAX ? each : GSP_REPORT_POINTS_MAX;
}

static void put_points(struct gsp_json *json, const char *key, const double *shown,
                       const struct gsp_report_series *series, size_t max)
{
    struct gsp_decimation thin =
        gsp_report__decimation_begin(series->v, sizeof(*series->v), series->count, max);
    gsp_json_put_arr_begin(json, key);
    for (size_t i; gsp_report__decimation_next(&thin, &i);)
        gsp_json_f64(json, shown[i]);
    gsp_json_arr_end(json);
}

static void put_series(struct gsp_json *json, const struct gsp_report_series *series,
                       struct gsp_sv name, size_t max)
{
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "name", name);
    put_points(json, "t", series->t, series, max);
    put_points(json, "v", series->v, series, max);
    gsp_json_obj_end(json);
}

void gsp_report_series_put(struct gsp_json *json, const struct gsp_report_series *series,
                           struct gsp_sv name)
{
    put_series(json, series, name, GSP_REPORT_POINTS_MAX);
}

void gsp_report_chart_put_head(struct gsp_json *json, const struct gsp_report_chart *chart)
{
    gsp_json_put_sv(json, "id", chart->id);
    gsp_json_put_sv(json, "title", chart->title);
    gsp_json_put_sv(json, "unit", chart->unit);
    gsp_json_put_str(json, "help", chart->help);
}

static void put_charts(struct gsp_json *json, const struct gsp_report *report)
{
    const size_t max = points_max(report);
    gsp_json_put_arr_begin(json, "charts");
    for (size_t i = 0; i < report->chart_count; i++) {
        const struct gsp_report_chart *chart = &report->charts[i];
        gsp_json_obj_begin(json);
        gsp_report_chart_put_head(json, chart);
        gsp_json_put_arr_begin(json, "series");
        for (size_t k = 0; k < chart->series_count; k++)
            put_series(json, &chart->series[k], chart->series[k].name, max);
        gsp_json_arr_end(json);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_frame(struct gsp_json *json, const struct gsp_report_frame *frame)
{
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "func", frame->func);
    gsp_json_put_sv(json, "file", frame->file);
    gsp_json_key(json, "line");
    put_i64_or_null(json, frame->line ? (int64_t)frame->line : GSP_NULL_I64);
    if (frame->hot_line)
        gsp_json_put_u64(json, "hot_line", frame->hot_line);
    gsp_json_put_str(json, "type", gsp_model_frame_type_name(frame->kind));
    gsp_json_obj_end(json);
}

static void put_thread(struct gsp_json *json, const struct gsp_report_thread *thread)
{
    gsp_json_obj_begin(json);
    gsp_json_key(json, "pid");
    put_i64_or_null(json, thread->pid);
    gsp_json_key(json, "tid");
    put_i64_or_null(json, thread->tid);
    gsp_json_put_sv(json, "name", thread->name);
    if (thread->rank != GSP_NULL_I64)
        gsp_json_put_i64(json, "rank", thread->rank);
    gsp_json_obj_end(json);
}

static void put_processes(struct gsp_json *json, const struct gsp_report_stacks *stacks)
{
    gsp_json_put_arr_begin(json, "processes");
    for (size_t i = 0; i < stacks->process_count; i++) {
        gsp_json_obj_begin(json);
        gsp_json_key(json, "pid");
        put_i64_or_null(json, stacks->processes[i].pid);
        gsp_json_put_sv(json, "name", stacks->processes[i].name);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

/* Columns of the samples. */
enum sample_column { SAMPLE_T, SAMPLE_THREAD, SAMPLE_NODE, SAMPLE_WEIGHT, SAMPLE_ON_CPU };

static void put_sample_column(struct gsp_json *json, const struct gsp_report_stacks *stacks,
                              const char *key, enum sample_column column)
{
    gsp_json_put_arr_begin(json, key);
    for (size_t i = 0; i < stacks->sample_count; i++) {
        const struct gsp_report_sample *sample = &stacks->samples[i];
        switch (column) {
        case SAMPLE_T:
            gsp_json_f64(json, sample->t);
            break;
        case SAMPLE_THREAD:
            gsp_json_u64(json, sample->thread);
            break;
        case SAMPLE_NODE:
            gsp_json_i64(json, sample->node);
            break;
        case SAMPLE_WEIGHT:
            gsp_json_f64(json, sample->weight);
            break;
        case SAMPLE_ON_CPU:
            gsp_json_u64(json, sample->on_cpu);
            break;
        }
    }
    gsp_json_arr_end(json);
}

static void put_nodes(struct gsp_json *json, const struct gsp_report_stacks *stacks)
{
    gsp_json_put_obj_begin(json, "nodes");
    gsp_json_put_arr_begin(json, "parent");
    for (size_t i = 0; i < stacks->node_count; i++)
        gsp_json_i64(json, stacks->nodes[i].parent);
    gsp_json_arr_end(json);
    gsp_json_put_arr_begin(json, "frame");
    for (size_t i = 0; i < stacks->node_count; i++)
        gsp_json_u64(json, stacks->nodes[i].frame);
    gsp_json_arr_end(json);
    gsp_json_put_arr_begin(json, "line");
    for (size_t i = 0; i < stacks->node_count; i++)
        put_i64_or_null(json,
                        stacks->nodes[i].line ? (int64_t)stacks->nodes[i].line : GSP_NULL_I64);
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

static void put_stacks(struct gsp_json *json, const struct gsp_report_stacks *stacks)
{
    gsp_json_put_obj_begin(json, "stacks");
    gsp_json_put_str(json, "unit", stacks->unit);
    put_processes(json, stacks);
    gsp_json_put_arr_begin(json, "threads");
    for (size_t i = 0; i < stacks->thread_count; i++)
        put_thread(json, &stacks->threads[i]);
    gsp_json_arr_end(json);
    gsp_json_put_arr_begin(json, "frames");
    for (size_t i = 0; i < stacks->frame_count; i++)
        put_frame(json, &stacks->frames[i]);
    gsp_json_arr_end(json);
    put_nodes(json, stacks);
    gsp_json_put_obj_begin(json, "samples");
    if (stacks->has_times)
        put_sample_column(json, stacks, "t", SAMPLE_T);
    put_sample_column(json, stacks, "thread", SAMPLE_THREAD);
    put_sample_column(json, stacks, "node", SAMPLE_NODE);
    put_sample_column(json, stacks, "weight", SAMPLE_WEIGHT);
    if (!isnan(stacks->total_cpu))
        put_sample_column(json, stacks, "on_cpu", SAMPLE_ON_CPU);
    gsp_json_put_u64(json, "seen", stacks->seen);
    gsp_json_obj_end(json);
    gsp_json_obj_end(json);
}

static void put_modules(struct gsp_json *json, const struct gsp_report *report)
{
    gsp_json_put_arr_begin(json, "modules");
    for (size_t i = 0; i < report->module_count; i++) {
        const struct gsp_report_module *module = &report->modules[i];
        gsp_json_obj_begin(json);
        gsp_json_put_sv(json, "module", module->module);
        gsp_json_put_sv(json, "class", module->class_name);
        gsp_json_put_sv(json, "stage", module->stage);
        gsp_json_put_u64(json, "calls", module->calls);
        gsp_json_put_f64(json, "total_s", module->total_s);
        gsp_json_put_f64(json, "share", module->share);
        gsp_json_put_f64(json, "mean_s", module->mean_s);
        gsp_json_put_f64(json, "p50_s", module->p50_s);
        gsp_json_put_f64(json, "p90_s", module->p90_s);
        gsp_json_put_f64(json, "p99_s", module->p99_s);
        gsp_json_put_f64(json, "max_s", module->max_s);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

/* All columns of the steps select the same rows. */
static struct gsp_decimation thin_steps(const struct gsp_report *report)
{
    return gsp_report__decimation_begin(&report->steps[0].duration_s, sizeof(*report->steps),
                                        report->step_count, GSP_REPORT_EVENTS_MAX);
}

static void put_steps(struct gsp_json *json, const struct gsp_report *report)
{
    static const char *const KEYS[] = {"step", "t", "duration_s", "rank"};
    gsp_json_put_obj_begin(json, "steps");
    for (size_t k = 0; k < GSP_COUNT(KEYS); k++) {
        struct gsp_decimation thin = thin_steps(report);
        gsp_json_put_arr_begin(json, KEYS[k]);
        for (size_t i; gsp_report__decimation_next(&thin, &i);) {
            const struct gsp_report_step *step = &report->steps[i];
            if (k == 0 || k == 3)
                put_i64_or_null(json, k == 0 ? step->step : step->rank);
            else
                gsp_json_f64(json, k == 1 ? step->t : step->duration_s);
        }
        gsp_json_arr_end(json);
    }
    gsp_json_put_u64(json, "seen", report->step_count);
    gsp_json_obj_end(json);
}

static void put_ranks(struct gsp_json *json, const struct gsp_report *report)
{
    gsp_json_put_arr_begin(json, "ranks");
    for (size_t i = 0; i < report->rank_count; i++) {
        gsp_json_obj_begin(json);
        gsp_json_put_i64(json, "rank", report->ranks[i].rank);
        gsp_json_put_f64(json, "collective_s", report->ranks[i].collective_s);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_span_value(struct gsp_json *json, const struct gsp_report_span *span, size_t column,
                           const struct gsp_hmap *threads)
{
    const uint32_t *thread = gsp_hmap_get(threads, (uint64_t)span->pid, (uint64_t)span->tid);
    switch (column) {
    case 0:
        gsp_json_u64(json, span->name);
        break;
    case 1:
        gsp_json_f64(json, span->t);
        break;
    case 2:
        gsp_json_f64(json, span->duration_s);
        break;
    case 3:
        gsp_json_u64(json, thread ? *thread : 0);
        break;
    default:
        gsp_json_u64(json, span->depth);
    }
}

/* The name of a thread, if the stacks have it; otherwise "". */
static struct gsp_sv thread_name(const struct gsp_report *report, int64_t pid, int64_t tid)
{
    for (size_t i = 0; i < report->stacks.thread_count; i++) {
        const struct gsp_report_thread *thread = &report->stacks.threads[i];
        if (thread->pid == pid && thread->tid == tid)
            return thread->name;
    }
    return (struct gsp_sv){"", 0};
}

static bool put_span_threads(struct gsp_json *json, const struct gsp_report *report,
                             struct gsp_hmap *threads)
{
    uint32_t count = 0;
    gsp_json_put_arr_begin(json, "threads");
    for (size_t i = 0; i < report->span_count; i++) {
        const struct gsp_report_span *span = &report->spans[i];
        if (gsp_hmap_get(threads, (uint64_t)span->pid, (uint64_t)span->tid))
            continue;
        if (!gsp_hmap_put(threads, (uint64_t)span->pid, (uint64_t)span->tid, count++))
            return false;
        put_thread(json,
                   &(struct gsp_report_thread){.pid = span->pid,
                                               .tid = span->tid,
                                               .rank = GSP_NULL_I64,
                                               .name = thread_name(report, span->pid, span->tid)});
    }
    gsp_json_arr_end(json);
    return true;
}

static void put_spans(struct gsp_json *json, const struct gsp_report *report)
{
    static const char *const KEYS[] = {"name", "t", "duration_s", "thread", "depth"};
    struct gsp_hmap threads = {0};
    gsp_json_put_obj_begin(json, "spans");
    gsp_json_put_arr_begin(json, "names");
    for (size_t i = 0; i < report->span_name_count; i++)
        gsp_json_sv(json, report->span_names[i]);
    gsp_json_arr_end(json);
    if (!put_span_threads(json, report, &threads))
        json->out->failed = true;
    for (size_t k = 0; k < GSP_COUNT(KEYS); k++) {
        struct gsp_decimation thin =
            gsp_report__decimation_begin(&report->spans[0].duration_s, sizeof(*report->spans),
                                         report->span_count, GSP_REPORT_EVENTS_MAX);
        gsp_json_put_arr_begin(json, KEYS[k]);
        for (size_t i; gsp_report__decimation_next(&thin, &i);)
            put_span_value(json, &report->spans[i], k, &threads);
        gsp_json_arr_end(json);
    }
    gsp_json_put_u64(json, "seen", report->span_count);
    gsp_json_obj_end(json);
    gsp_hmap_free(&threads);
}

static void put_memory(struct gsp_json *json, const struct gsp_report *report)
{
    const struct gsp_report_memory *memory = &report->memory;
    gsp_json_put_obj_begin(json, "memory");
    gsp_json_put_f64(json, "peak_rss_bytes", memory->peak_rss_bytes);
    gsp_json_put_f64(json, "growth_bytes_per_s", memory->growth_bytes_per_s);
    gsp_json_put_arr_begin(json, "sites");
    for (size_t i = 0; i < memory->site_count; i++) {
        const struct gsp_report_site *site = &memory->sites[i];
        gsp_json_obj_begin(json);
        gsp_json_put_arr_begin(json, "stack");
        for (size_t k = 0; k < site->frame_count; k++)
            put_frame(json, &report->site_frames[site->frames[k]]);
        gsp_json_arr_end(json);
        gsp_json_put_f64(json, "bytes", site->bytes);
        gsp_json_put_f64(json, "count", site->count);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

static void put_losses(struct gsp_json *json, const struct gsp_report *report)
{
    gsp_json_put_arr_begin(json, "losses");
    for (size_t i = 0; i < report->loss_count; i++) {
        gsp_json_obj_begin(json);
        gsp_json_put_sv(json, "what", report->losses[i].what);
        gsp_json_put_u64(json, "count", report->losses[i].count);
        gsp_json_put_sv(json, "why", report->losses[i].why);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_head(struct gsp_json *json, const struct gsp_report *report)
{
    static const char *const KINDS[] = {[GSP_REPORT_RUN] = "run",
                                        [GSP_REPORT_SESSION] = "session",
                                        [GSP_REPORT_PROFILE] = "profile",
                                        [GSP_REPORT_MEMORY] = "memory"};
    char start[32] = "";
    gsp_json_put_str(json, "format", "gsprof-report");
    gsp_json_put_i64(json, "version", 1);
    gsp_json_put_str(json, "kind", KINDS[report->kind]);
    gsp_json_put_sv(json, "title", report->title);
    gsp_json_put_str(json, "gsprof", GSP_VERSION);
    snprintf(start, sizeof(start), "%" PRId64, report->start_ns);
    gsp_json_put_str(json, "start_ns", report->start_ns > 0 ? start : NULL);
    gsp_json_put_f64(json, "duration_s", report->duration_s);
}

void gsp_report__write_json(const struct gsp_report *report, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    put_head(&json, report);
    put_facts(&json, report);
    put_cards(&json, report);
    put_verdict(&json, report);
    put_charts(&json, report);
    if (report->profile)
        put_stacks(&json, &report->stacks);
    if (report->module_count)
        put_modules(&json, report);
    if (report->step_count)
        put_steps(&json, report);
    if (report->rank_count)
        put_ranks(&json, report);
    if (report->span_count)
        put_spans(&json, report);
    if (!isnan(report->memory.peak_rss_bytes) || report->memory.site_count)
        put_memory(&json, report);
    if (report->has_losses || report->loss_count)
        put_losses(&json, report);
    gsp_json_obj_end(&json);
}
