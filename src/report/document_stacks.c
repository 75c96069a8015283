/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/time.h"
#include "model/ids.h"
#include "model/lines.h"
#include "report/document_internal.h"

/* Initial number of time intervals for merging samples. */
#define BUCKETS_FIRST 100000

struct builder {
    struct gsp_report *report;
    struct gsp_report_stacks *stacks; /* of the document */
    const struct gsp_profile *profile;
    struct gsp_hmap map;
    uint32_t *frame_of; /* frame of the profile -> frame of the document */
    int32_t *node_of;   /* stack of the profile -> node; -1: none */
    double scale;       /* factor for weights */
    double shift_s;     /* offset for times */
    bool knows_cpu;
};

static void add_processes(struct builder *b)
{
    struct gsp_report_stacks *stacks = b->stacks;
    for (uint32_t i = 0; i < gsp_model_profile_process_count(b->profile); i++) {
        const struct gsp_process *process = gsp_model_profile_process_at(b->profile, i);
        if (!gsp_report__array_fit(b->report, &stacks->processes, stacks->process_count))
            return;
        stacks->processes[stacks->process_count++] = (struct gsp_report_process){
            .pid = process->pid, .name = gsp_model_profile_string_at(b->profile, process->name)};
    }
}

static void add_threads(struct builder *b)
{
    struct gsp_report_stacks *stacks = b->stacks;
    for (uint32_t i = 0; i < gsp_model_profile_thread_count(b->profile); i++) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(b->profile, i);
        const struct gsp_process *process =
            gsp_model_profile_process_at(b->profile, thread->process);
        if (!gsp_report__array_fit(b->report, &stacks->threads, stacks->thread_count))
            return;
        stacks->threads[stacks->thread_count++] = (struct gsp_report_thread){
            .pid = process ? process->pid : GSP_NULL_I64,
            .tid = thread->os_id ? (int64_t)thread->os_id : GSP_NULL_I64,
            .name = gsp_model_profile_string_at(b->profile, thread->name),
            .rank = process ? gsp_model_rank_of_name(
                                  gsp_model_profile_string_at(b->profile, process->name))
                            : GSP_NULL_I64};
    }
}

/* Unless `lines` is set, all lines of a function are one frame with the first line of the function;
 * hot has the heaviest line of each frame. */
static int add_frames(struct builder *b, bool lines, const uint32_t *hot, struct gsp_err *err)
{
    struct gsp_report_stacks *stacks = b->stacks;
    gsp_hmap_clear(&b->map);
    for (uint32_t id = 1; id <= gsp_model_profile_frame_count(b->profile); id++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(b->profile, id);
        const uint64_t names = (uint64_t)frame->name << 32 | frame->file;
        const uint64_t rest = (uint64_t)frame->kind << 32 | (lines ? frame->line : 0);
        const uint32_t *known = gsp_hmap_get(&b->map, names, rest);
        if (known) {
            b->frame_of[id] = *known;
            continue;
        }
        if (!gsp_report__array_fit(b->report, &stacks->frames, stacks->frame_count))
            return gsp_err_nomem(err);
        stacks->frames[stacks->frame_count] =
            (struct gsp_report_frame){.func = gsp_model_profile_string_at(b->profile, frame->name),
                                      .file = gsp_model_profile_string_at(b->profile, frame->file),
                                      .line = lines ? frame->line : frame->first_line,
                                      .hot_line = lines ? frame->line : hot[id],
                                      .kind = frame->kind};
        b->frame_of[id] = (uint32_t)stacks->frame_count++;
        if (!gsp_hmap_put(&b->map, names, rest, b->frame_of[id]))
            return gsp_err_nomem(err);
    }
    return GSP_OK;
}

static int add_nodes(struct builder *b, struct gsp_err *err)
{
    struct gsp_report_stacks *stacks = b->stacks;
    gsp_hmap_clear(&b->map);
    b->node_of[0] = -1;
    for (uint32_t id = 1; id <= gsp_model_profile_stack_count(b->profile); id++) {
        /* A caller has a lower id: it was interned first. */
        const int32_t parent = b->node_of[gsp_model_profile_stack_caller(b->profile, id)];
        const uint32_t frame = b->frame_of[gsp_model_profile_stack_frame(b->profile, id)];
        const uint32_t *known = gsp_hmap_get(&b->map, (uint32_t)(parent + 1), frame);
        if (known) {
            b->node_of[id] = (int32_t)*known;
            continue;
        }
        if (!gsp_report__array_fit(b->report, &stacks->nodes, stacks->node_count))
            return gsp_err_nomem(err);
        stacks->nodes[stacks->node_count] = (struct gsp_report_node){
            .parent = parent, .frame = frame, .own_cpu = b->knows_cpu ? 0 : (double)NAN};
        b->node_of[id] = (int32_t)stacks->node_count++;
        if (!gsp_hmap_put(&b->map, (uint32_t)(parent + 1), frame, (uint32_t)b->node_of[id]))
            return gsp_err_nomem(err);
    }
    return GSP_OK;
}

/* Finds the line of each node with the most total weight. Stacks of a node that differ only in this
 * line are summed. */
static int add_node_lines(struct builder *b, const double *weights, struct gsp_err *err)
{
    const size_t count = gsp_model_profile_stack_count(b->profile);
    double *sums = calloc(
        count + 1, sizeof(*sums)); /* of a node and line, at the index of their first stack */
    double *most = calloc(b->stacks->node_count + 1, sizeof(*most));
    int rc = sums && most ? GSP_OK : gsp_err_nomem(err);
    gsp_hmap_clear(&b->map);
    for (uint32_t id = 1; rc == GSP_OK && id <= count; id++) {
        const int32_t node = b->node_of[id];
        const uint32_t line =
            gsp_model_profile_frame_at(b->profile, gsp_model_profile_stack_frame(b->profile, id))
                ->line;
        if (line == 0)
            continue;
        const uint32_t *known = gsp_hmap_get(&b->map, (uint32_t)node, line);
        const uint32_t first = known ? *known : id;
        if (!known && !gsp_hmap_put(&b->map, (uint32_t)node, line, id))
            rc = gsp_err_nomem(err);
        sums[first] += weights[id];
        if (sums[first] > most[node] || b->stacks->nodes[node].line == 0) {
            most[node] = sums[first];
            b->stacks->nodes[node].line = line;
        }
    }
    free(sums);
    free(most);
    return rc;
}

static bool append(struct builder *b, const struct gsp_report_sample *sample)
{
    struct gsp_report_stacks *stacks = b->stacks;
    if (!gsp_report__array_fit(b->report, &stacks->samples, stacks->sample_count))
        return false;
    stacks->samples[stacks->sample_count++] = *sample;
    return true;
}

static struct gsp_report_sample row_of(const struct builder *b, const struct gsp_sample *sample)
{
    return (struct gsp_report_sample){.t = b->shift_s +
                                           (double)sample->time_ns / (double)GSP_NS_PER_S,
                                      .weight = (double)sample->weight * b->scale,
                                      .thread = sample->thread,
                                      .node = b->node_of[sample->stack],
                                      .on_cpu = (sample->flags & GSP_SAMPLE_ON_CPU) != 0};
}

/* Merges samples of the same thread, node and time interval. Returns 1 if too many are left. */
static int merge(struct builder *b, int64_t width_ns, bool must_fit, struct gsp_err *err)
{
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_hmap_clear(&b->map);
    b->stacks->sample_count = 0;
    gsp_model_sample_iter_init(&iter, b->profile);
    while (gsp_model_sample_iter_next(&iter, &sample)) {
        const struct gsp_report_sample row = row_of(b, &sample);
        const uint64_t when = (uint64_t)(sample.time_ns / width_ns) << 1 | row.on_cpu;
        const uint64_t where = (uint64_t)sample.thread << 32 | (uint32_t)row.node;
        const uint32_t *known = gsp_hmap_get(&b->map, when, where);
        if (known) {
            struct gsp_report_sample *sum = &b->stacks->samples[*known];
            sum->weight += row.weight;
            sum->t = fmax(sum->t, row.t);
            continue;
        }
        if (must_fit && b->stacks->sample_count == GSP_REPORT_SAMPLES_MAX)
            return 1;
        if (!gsp_hmap_put(&b->map, when, where, (uint32_t)b->stacks->sample_count) ||
            !append(b, &row))
            return gsp_err_nomem(err);
    }
    return GSP_OK;
}

static int64_t last_time(const struct gsp_profile *profile)
{
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    int64_t last = 0;
    gsp_model_sample_iter_init(&iter, profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        last = sample.time_ns > last ? sample.time_ns : last;
    return last;
}

static int add_merged(struct builder *b, struct gsp_err *err)
{
    const int64_t last_ns = last_time(b->profile);
    int64_t width_ns = last_ns / BUCKETS_FIRST + 1;
    int rc = 1;
    while (rc > 0) {
        rc = merge(b, width_ns, width_ns <= last_ns, err);
        width_ns = width_ns > INT64_MAX / 4 ? INT64_MAX : 2 * width_ns;
    }
    return rc;
}

static int add_each(struct builder *b, struct gsp_err *err)
{
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, b->profile);
    while (gsp_model_sample_iter_next(&iter, &sample)) {
        const struct gsp_report_sample row = row_of(b, &sample);
        if (!append(b, &row))
            return gsp_err_nomem(err);
    }
    return GSP_OK;
}

static int add_sums(struct builder *b, struct gsp_err *err)
{
    for (size_t i = 0; i < gsp_model_profile_total_count(b->profile); i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(b->profile, i);
        const struct gsp_report_sample row = {.weight = (double)total->weight * b->scale,
                                              .thread = total->thread,
                                              .node = b->node_of[total->stack]};
        if (!append(b, &row))
            return gsp_err_nomem(err);
    }
    return GSP_OK;
}

static int by_time(const void *a, const void *b)
{
    const struct gsp_report_sample *x = a;
    const struct gsp_report_sample *y = b;
    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static void sum_up(struct builder *b)
{
    struct gsp_report_stacks *stacks = b->stacks;
    stacks->total_cpu = b->knows_cpu ? 0 : (double)NAN;
    for (size_t i = 0; i < stacks->sample_count; i++) {
        const struct gsp_report_sample *sample = &stacks->samples[i];
        stacks->total += sample->weight;
        if (sample->on_cpu)
            stacks->total_cpu += sample->weight;
        if (sample->node < 0) {
            stacks->no_frame += sample->weight;
            continue;
        }
        stacks->nodes[sample->node].own += sample->weight;
        if (sample->on_cpu)
            stacks->nodes[sample->node].own_cpu += sample->weight;
    }
    for (size_t i = 0; i < stacks->node_count; i++)
        stacks->nodes[i].total = stacks->nodes[i].own;
    for (size_t i = stacks->node_count; i-- > 0;)
        if (stacks->nodes[i].parent >= 0)
            stacks->nodes[stacks->nodes[i].parent].total += stacks->nodes[i].total;
}

static bool calls_itself(const struct gsp_report_stacks *stacks, size_t node)
{
    const uint32_t frame = stacks->nodes[node].frame;
    for (int32_t at = stacks->nodes[node].parent; at >= 0; at = stacks->nodes[at].parent)
        if (stacks->nodes[at].frame == frame)
            return true;
    return false;
}

static int by_own(const void *a, const void *b)
{
    const struct gsp_report_function *x = a;
    const struct gsp_report_function *y = b;
    if (x->own != y->own)
        return x->own > y->own ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    const size_t len = x->func.len < y->func.len ? x->func.len : y->func.len;
    const int order = len ? memcmp(x->func.p, y->func.p, len) : 0;
    return order ? order : (x->func.len > y->func.len) - (x->func.len < y->func.len);
}

static int add_functions(struct builder *b, struct gsp_err *err)
{
    struct gsp_report_stacks *stacks = b->stacks;
    if (stacks->frame_count == 0)
        return GSP_OK;
    stacks->functions = calloc(stacks->frame_count, sizeof(*stacks->functions));
    if (!stacks->functions)
        return gsp_err_nomem(err);
    stacks->function_count = stacks->frame_count;
    for (size_t i = 0; i < stacks->frame_count; i++) {
        const struct gsp_report_frame *frame = &stacks->frames[i];
        stacks->functions[i] =
            (struct gsp_report_function){.func = frame->func,
                                         .file = frame->file,
                                         .line = frame->line,
                                         .kind = frame->kind,
                                         .own_cpu = b->knows_cpu ? 0 : (double)NAN};
    }
    for (size_t i = 0; i < stacks->node_count; i++) {
        struct gsp_report_function *function = &stacks->functions[stacks->nodes[i].frame];
        function->own += stacks->nodes[i].own;
        function->own_cpu += stacks->nodes[i].own_cpu;
        if (!calls_itself(stacks, i))
            function->total += stacks->nodes[i].total;
    }
    qsort(stacks->functions, stacks->function_count, sizeof(*stacks->functions), by_own);
    return GSP_OK;
}

static bool knows_cpu(const struct gsp_profile *profile, const struct gsp_model_profile_meta *meta)
{
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    if (meta->ticks > 0)
        return gsp_model_profile_has_samples(profile); /* gsprof records whether a thread ran */
    gsp_model_sample_iter_init(&iter, profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        if (sample.flags & GSP_SAMPLE_ON_CPU)
            return true;
    return false;
}

/* Frames, and nodes with their lines. */
static int add_tree(struct builder *b, bool lines, struct gsp_err *err)
{
    struct gsp_stack_weights weights = {0};
    uint32_t *hot = NULL;
    int rc = gsp_model_stack_weights_new(b->profile, &weights, err);
    if (rc == GSP_OK)
        rc = gsp_model_hot_lines(b->profile, &weights, &hot, err);
    if (rc == GSP_OK)
        rc = add_frames(b, lines, hot, err);
    if (rc == GSP_OK)
        rc = add_nodes(b, err);
    if (rc == GSP_OK)
        rc = add_node_lines(b, weights.total, err);
    free(hot);
    gsp_model_stack_weights_free(&weights);
    return rc;
}

static int build(struct builder *b, const struct gsp_report_open_opts *opts, struct gsp_err *err)
{
    struct gsp_report_stacks *stacks = b->stacks;
    b->frame_of = calloc(gsp_model_profile_frame_count(b->profile) + 1, sizeof(*b->frame_of));
    b->node_of = calloc(gsp_model_profile_stack_count(b->profile) + 1, sizeof(*b->node_of));
    if (!b->frame_of || !b->node_of)
        return gsp_err_nomem(err);
    add_processes(b);
    add_threads(b);
    stacks->seen = gsp_model_profile_sample_count(b->profile);
    stacks->has_times = gsp_model_profile_has_samples(b->profile);
    int rc = add_tree(b, opts && opts->lines, err);
    if (rc == GSP_OK && !stacks->has_times)
        rc = add_sums(b, err);
    else if (rc == GSP_OK)
        rc = stacks->seen > GSP_REPORT_SAMPLES_MAX ? add_merged(b, err) : add_each(b, err);
    if (rc < 0)
        return rc;
    if (stacks->has_times && stacks->sample_count > 1)
        qsort(stacks->samples, stacks->sample_count, sizeof(*stacks->samples), by_time);
    sum_up(b);
    return add_functions(b, err);
}

int gsp_report__stacks_fill(struct gsp_report *report, const struct gsp_report_open_opts *opts,
                            struct gsp_err *err)
{
    static const char *const UNITS[] = {
        [GSP_UNIT_NS] = "s", [GSP_UNIT_COUNT] = "samples", [GSP_UNIT_BYTES] = "bytes"};
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(report->profile);
    struct builder b = {.report = report,
                        .stacks = &report->stacks,
                        .profile = report->profile,
                        .scale = meta->unit == GSP_UNIT_NS ? 1.0 / (double)GSP_NS_PER_S : 1,
                        .knows_cpu = knows_cpu(report->profile, meta)};
    if (meta->start_ns > 0 && report->start_ns > 0)
        b.shift_s = (double)(meta->start_ns - report->start_ns) / (double)GSP_NS_PER_S;
    report->stacks.unit = UNITS[meta->unit];
    const int rc = build(&b, opts, err);
    gsp_hmap_free(&b.map);
    free(b.frame_of);
    free(b.node_of);
    return rc;
}
