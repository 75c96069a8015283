/* SPDX-License-Identifier: Apache-2.0 */
#include "report/time_shares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/frames.h"
#include "report/verdict.h"

/* A GPU with lower utilization is idle. */
#define IDLE_PERCENT 5.0

/* The purpose of a frame or of its outermost ancestor that has one. */
enum work { WORK_OTHER, WORK_LOADING, WORK_IMPORT, WORK_HELP };

struct counter {
    const struct gsp_report *report;
    const struct gsp_report_stacks *stacks;
    struct gsp_time_shares *shares;
    enum work *work;  /* of each node */
    bool *helps;      /* of each thread: it is a resource tracker */
    double *idle_own; /* of each frame: weight while the GPU was idle */
    size_t gpu_at;    /* index of the first GPU value after the sample */
};

/* Whether it is a main thread, but not of a helper process of multiprocessing or joblib, which
 * always waits. */
static bool is_main(const struct counter *c, size_t thread)
{
    const struct gsp_report_thread *at = &c->stacks->threads[thread];
    return at->pid != GSP_NULL_I64 && at->pid == at->tid && !c->helps[thread];
}

/* Whether the frame is the main loop of a resource tracker of multiprocessing or loky. */
static bool is_tracker(const struct gsp_report_frame *frame)
{
    return gsp_sv_eq(frame->func, gsp_sv_of("main")) &&
           (gsp_sv_ends(frame->file, "/multiprocessing/resource_tracker.py") ||
            gsp_sv_ends(frame->file, "/loky/backend/resource_tracker.py") ||
            gsp_sv_ends(frame->file, "/multiprocessing/semaphore_tracker.py"));
}

static bool loads_data(const struct gsp_report_frame *frame)
{
    static const char FOLDER[] = "torch/utils/data/";
    return frame->file.len &&
           memmem(frame->file.p, frame->file.len, FOLDER, sizeof(FOLDER) - 1) != NULL;
}

static bool imports(const struct gsp_report_frame *frame)
{
    return gsp_sv_eq(frame->func, gsp_sv_of(GSP_MARK_IMPORT)) ||
           gsp_model_file_is_import(frame->file);
}

/* The utilization of the busiest GPU. All GPUs are measured at the same times. */
static double busiest(const struct gsp_report_chart *gpu, size_t i)
{
    double most = (double)NAN;
    for (size_t k = 0; k < gpu->series_count; k++) {
        const struct gsp_report_series *series = &gpu->series[k];
        if (i < series->count && !isnan(series->v[i]) && !(most >= series->v[i]))
            most = series->v[i];
    }
    return most;
}

double gsp_report__gpu_idle(const struct gsp_report *report)
{
    const struct gsp_report_chart *gpu = gsp_report_chart_find(report, "gpu_util");
    double idle_s = 0;
    double known_s = 0;
    if (!gpu || gpu->series_count == 0)
        return (double)NAN;
    for (size_t k = 0; k < gpu->series_count; k++) {
        const struct gsp_report_series *series = &gpu->series[k];
        for (size_t i = 0; i < series->count; i++) {
            /* A value covers the interval since the previous one. */
            const double span_s = i ? series->t[i] - series->t[i - 1] : 0;
            const double weight = series->count == 1 ? 1 : span_s;
            if (isnan(series->v[i]))
                continue;
            known_s += weight;
            idle_s += series->v[i] < IDLE_PERCENT ? weight : 0;
        }
    }
    return known_s > 0 ? idle_s / known_s : (double)NAN;
}

static bool gpu_idles_at(struct counter *c, const struct gsp_report_chart *gpu,
                         const struct gsp_report_sample *sample)
{
    const struct gsp_report_series *first = &gpu->series[0];
    while (c->gpu_at < first->count && first->t[c->gpu_at] < sample->t)
        c->gpu_at++;
    if (c->gpu_at == 0 || c->gpu_at >= first->count)
        return false; /* the GPU was not measured at that time */
    c->shares->gpu_seen += sample->weight;
    return busiest(gpu, c->gpu_at) < IDLE_PERCENT;
}

/* Whether the program itself runs, and not the startup of the interpreter. */
static bool is_work(const struct counter *c, const struct gsp_report_sample *sample)
{
    return sample->node >= 0 && c->work[sample->node] < WORK_IMPORT &&
           !gsp_sv_starts(c->stacks->frames[c->stacks->nodes[sample->node].frame].file, "<frozen ");
}

/* Marks represent work of the interpreter: imports, garbage collection. */
static bool is_python(const struct gsp_report_frame *frame)
{
    return frame->kind == GSP_FRAME_PYTHON || frame->kind == GSP_FRAME_MARK;
}

static void count_sample(struct counter *c, const struct gsp_report_sample *sample, bool gpu_idle)
{
    struct gsp_time_shares *shares = c->shares;
    shares->total += sample->weight;
    if (gpu_idle)
        shares->idle_total += sample->weight;
    if (sample->node >= 0) {
        const uint32_t frame = c->stacks->nodes[sample->node].frame;
        if (gpu_idle)
            c->idle_own[frame] += sample->weight;
        if (c->work[sample->node] == WORK_LOADING)
            shares->loading += sample->weight;
    }
    if (shares->knows_waiting && !sample->on_cpu)
        shares->waiting += sample->weight;
    else if (sample->node >= 0 &&
             is_python(&c->stacks->frames[c->stacks->nodes[sample->node].frame]))
        shares->python += sample->weight;
    else
        shares->native += sample->weight;
}

static void count_all(struct counter *c)
{
    const struct gsp_report_chart *gpu = gsp_report_chart_find(c->report, "gpu_util");
    const bool has_gpu = gpu && gpu->series_count > 0 && c->stacks->has_times;
    for (size_t i = 0; i < c->stacks->sample_count; i++) {
        const struct gsp_report_sample *sample = &c->stacks->samples[i];
        c->shares->worked += is_work(c, sample) ? sample->weight : 0;
        if (c->shares->mains && !is_main(c, sample->thread))
            continue;
        count_sample(c, sample, has_gpu && gpu_idles_at(c, gpu, sample));
    }
    for (size_t i = 0; i < c->stacks->frame_count; i++) {
        if (c->idle_own[i] > c->shares->idle_top) {
            c->shares->idle_top = c->idle_own[i];
            c->shares->idle = c->stacks->frames[i];
        }
    }
}

/* If idle threads were not recorded, the waiting time of a single thread follows from the wall
 * time. */
static void infer_waiting(struct counter *c)
{
    struct gsp_time_shares *shares = c->shares;
    if (!shares->knows_waiting || c->stacks->total_cpu < c->stacks->total)
        return;
    shares->is_running_only = true;
    shares->knows_waiting = shares->mains == 1 && c->report->duration_s > shares->total;
    if (!shares->knows_waiting)
        return;
    shares->waiting = c->report->duration_s - shares->total;
    shares->total = c->report->duration_s;
}

static void mark_work(struct counter *c)
{
    for (size_t i = 0; i < c->stacks->node_count; i++) {
        const struct gsp_report_node *node = &c->stacks->nodes[i];
        const struct gsp_report_frame *frame = &c->stacks->frames[node->frame];
        c->work[i] = node->parent >= 0 ? c->work[node->parent] : WORK_OTHER;
        if (c->work[i] == WORK_OTHER)
            c->work[i] = imports(frame)      ? WORK_IMPORT
                         : loads_data(frame) ? WORK_LOADING
                         : is_tracker(frame) ? WORK_HELP
                                             : WORK_OTHER;
    }
}

/* Needs mark_work(). */
static void mark_helpers(struct counter *c)
{
    for (size_t i = 0; i < c->stacks->sample_count; i++) {
        const struct gsp_report_sample *sample = &c->stacks->samples[i];
        if (sample->node >= 0 && c->work[sample->node] == WORK_HELP)
            c->helps[sample->thread] = true;
    }
    for (size_t i = 0; i < c->stacks->thread_count; i++)
        c->shares->mains += is_main(c, i);
}

int gsp_report__time_shares_compute(const struct gsp_report *report, struct gsp_time_shares *out,
                                    struct gsp_err *err)
{
    const struct gsp_report_stacks *stacks = &report->stacks;
    struct counter c = {.report = report, .stacks = stacks, .shares = out};
    *out = (struct gsp_time_shares){.knows_waiting = !isnan(stacks->total_cpu),
                                    .gpu_idle = gsp_report__gpu_idle(report)};
    for (size_t i = 0; i < stacks->frame_count && !out->has_native; i++)
        out->has_native = stacks->frames[i].kind == GSP_FRAME_NATIVE;
    c.work = calloc(stacks->node_count + 1, sizeof(*c.work));
    c.idle_own = calloc(stacks->frame_count + 1, sizeof(*c.idle_own));
    c.helps = calloc(stacks->thread_count + 1, sizeof(*c.helps));
    const bool ok = c.work && c.idle_own && c.helps;
    if (ok) {
        mark_work(&c);
        mark_helpers(&c);
        count_all(&c);
        infer_waiting(&c);
    }
    free(c.work);
    free(c.idle_own);
    free(c.helps);
    return ok ? GSP_OK : gsp_err_nomem(err);
}
