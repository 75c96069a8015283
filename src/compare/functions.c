/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "compare/compare_internal.h"
#include "model/tree.h"

/* Time slices whose values are compared. */
#define SLICES         32U
/* Maximum number of tested functions; those with less time are only listed. */
#define TESTED_MAX     2000U
/* A function with a smaller share (a handful of samples) is not tested. */
#define TESTED_PCT_MIN 0.05

/* The stacks of one side in the compared time. */
struct part {
    const struct gsp_report_stacks *stacks;
    double edges[SLICES + 1]; /* of the slices; unused without times */
    double divisor[SLICES];   /* divisor of the sums of a slice */
    size_t slices;            /* 0: no times, only sums */
    double scale;             /* factor for sums over all slices */
    uint32_t *function_of;    /* frame -> function of the comparison */
    int32_t *node_of;         /* node -> node of the comparison */
    bool *waits_count;        /* thread -> whether its waiting time counts; NULL: all time counts */
    double total;             /* sum of the weights that count */
};

struct maker {
    struct gsp_compare *compare;
    struct part part[2];
    struct gsp_hmap functions;
    struct gsp_hmap nodes;
};

/* ----------------------------------------------------------------------------------- merged tree
 */

/* The first line of the function; if unknown, its heaviest line. */
static uint32_t line_of(const struct gsp_report_frame *frame)
{
    return frame->line ? frame->line : frame->hot_line;
}

static bool add_function(struct maker *maker, const struct gsp_report_frame *frame, bool is_second,
                         uint32_t *out)
{
    struct gsp_compare *compare = maker->compare;
    /* Files match by their displayed name: the folder of a package differs between environments. */
    const struct gsp_view_options view = {0};
    const struct gsp_sv file = gsp_model_frame_file(&view, frame->file);
    const uint64_t name = gsp_hash_bytes(frame->func.p, frame->func.len, frame->kind);
    const uint64_t where = gsp_hash_bytes(file.p, file.len, 1);
    const uint32_t *known = gsp_hmap_get(&maker->functions, name, where);
    if (known) {
        *out = *known;
        if (is_second)
            compare->functions[*known].line = line_of(frame);
        return true;
    }
    if (!gsp_compare__array_fit(compare, &compare->functions, compare->function_count))
        return false;
    *out = (uint32_t)compare->function_count++;
    compare->functions[*out] =
        (struct gsp_compare_function){.row = {.name = frame->func,
                                              .unit = gsp_sv_of(compare->unit),
                                              .better = GSP_BETTER_LOWER,
                                              .change = (double)NAN,
                                              .low = (double)NAN,
                                              .high = (double)NAN,
                                              .difference_low = (double)NAN,
                                              .difference_high = (double)NAN,
                                              .p = (double)NAN,
                                              .effect = (double)NAN},
                                      .file = file,
                                      .line = line_of(frame),
                                      .kind = frame->kind};
    return gsp_hmap_put(&maker->functions, name, where, *out);
}

static bool add_node(struct maker *maker, int32_t parent, uint32_t function, int32_t *out)
{
    struct gsp_compare *compare = maker->compare;
    const uint32_t *known = gsp_hmap_get(&maker->nodes, (uint32_t)(parent + 1), function);
    if (known) {
        *out = (int32_t)*known;
        return true;
    }
    if (!gsp_compare__array_fit(compare, &compare->nodes, compare->node_count))
        return false;
    *out = (int32_t)compare->node_count++;
    compare->nodes[*out] = (struct gsp_compare_node){.parent = parent, .frame = function};
    return gsp_hmap_put(&maker->nodes, (uint32_t)(parent + 1), function, (uint32_t)*out);
}

static bool join(struct maker *maker, int side)
{
    struct part *part = &maker->part[side];
    const struct gsp_report_stacks *stacks = part->stacks;
    part->function_of = calloc(stacks->frame_count + 1, sizeof(*part->function_of));
    part->node_of = calloc(stacks->node_count + 1, sizeof(*part->node_of));
    bool ok = part->function_of && part->node_of;
    for (size_t i = 0; ok && i < stacks->frame_count; i++)
        ok = add_function(maker, &stacks->frames[i], side == 1, &part->function_of[i]);
    for (size_t i = 0; ok && i < stacks->node_count; i++) {
        const struct gsp_report_node *node = &stacks->nodes[i];
        const int32_t parent = node->parent < 0 ? -1 : part->node_of[node->parent];
        ok = add_node(maker, parent, part->function_of[node->frame], &part->node_of[i]);
    }
    return ok;
}

/* --------------------------------------------------------------------------------------- threads
 */

static bool has_steps(const struct gsp_report *report, int64_t pid)
{
    for (size_t i = 0; i < report->step_count; i++)
        if (report->steps[i].pid == pid)
            return true;
    return false;
}

/* Worker threads that wait for work would dominate every table. So waiting time counts only in the
 * main thread of a process with steps or, without steps, of the first process. */
static bool choose_threads(const struct gsp_report *report, struct part *part)
{
    const struct gsp_report_stacks *stacks = part->stacks;
    if (isnan(stacks->total_cpu) || stacks->thread_count == 0)
        return true;
    part->waits_count = calloc(stacks->thread_count, sizeof(*part->waits_count));
    if (!part->waits_count)
        return false;
    int64_t last_pid = GSP_NULL_I64;
    bool last_has = false;
    for (size_t i = 0; i < stacks->thread_count; i++) {
        const struct gsp_report_thread *thread = &stacks->threads[i];
        if (thread->pid != last_pid && report->step_count > 0)
            last_has = has_steps(report, thread->pid);
        last_pid = thread->pid;
        part->waits_count[i] =
            thread->pid == thread->tid &&
            (report->step_count > 0 ? last_has : thread->pid == stacks->threads[0].pid);
    }
    return true;
}

static bool does_count(const struct part *part, const struct gsp_report_sample *sample)
{
    return sample->node >= 0 &&
           (!part->waits_count || sample->on_cpu || part->waits_count[sample->thread]);
}

static bool choose(struct maker *maker)
{
    bool is_part = false;
    for (int side = 0; side < 2; side++) {
        struct part *part = &maker->part[side];
        if (!choose_threads(maker->compare->side[side], part))
            return false;
        for (size_t i = 0; i < part->stacks->sample_count; i++) {
            const struct gsp_report_sample *sample = &part->stacks->samples[i];
            const bool counts = does_count(part, sample);
            part->total += counts ? sample->weight : 0;
            is_part = is_part || (!counts && sample->node >= 0);
        }
    }
    if (is_part)
        gsp_compare__note_add(
            maker->compare,
            gsp_sv_of("functions: waiting time counts only in the main thread; other "
                      "threads and workers count while they run"));
    return true;
}

/* ------------------------------------------------------------------------------------------ time
 */

/* The slice of a time; SLICES if it does not count. */
static size_t slice_of(const struct part *part, double t)
{
    if (part->slices == 0 || t < part->edges[0] || t > part->edges[part->slices])
        return SLICES;
    size_t low = 0;
    size_t high = part->slices;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (t >= part->edges[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Slices consist of whole steps; time before the first and after the last step does not count. */
static void slice_steps(struct part *part, const struct gsp_step_series *steps)
{
    const size_t count = steps->count - steps->warmup;
    const double *begin = steps->begin_s + steps->warmup;
    part->slices = count < SLICES ? count : SLICES;
    for (size_t i = 0; i < part->slices; i++) {
        const size_t from = i * count / part->slices;
        const size_t to = (i + 1) * count / part->slices;
        part->edges[i] = begin[from];
        part->divisor[i] = (double)(to - from);
    }
    part->edges[part->slices] = begin[count - 1] + steps->duration_s[steps->count - 1];
    part->scale = 1 / (double)count;
}

static void slice_time(struct part *part, double scale)
{
    const struct gsp_report_stacks *stacks = part->stacks;
    part->scale = scale;
    if (!stacks->has_times || stacks->sample_count < SLICES)
        return;
    const double begin = stacks->samples[0].t;
    const double end = stacks->samples[stacks->sample_count - 1].t;
    if (!(end > begin))
        return;
    part->slices = SLICES;
    for (size_t i = 0; i <= SLICES; i++)
        part->edges[i] = begin + (end - begin) * (double)i / SLICES;
    for (size_t i = 0; i < SLICES; i++)
        part->divisor[i] = 1.0 / SLICES / scale;
}

static bool have_steps(const struct maker *maker, const struct gsp_step_series steps[2])
{
    bool have = true;
    for (int i = 0; i < 2; i++)
        have = have && steps[i].count > steps[i].warmup && maker->part[i].stacks->has_times;
    return have;
}

static void lay_out(struct maker *maker, enum gsp_compare_per per,
                    const struct gsp_step_series steps[2])
{
    struct gsp_compare *compare = maker->compare;
    const char *unit[2] = {maker->part[0].stacks->unit, maker->part[1].stacks->unit};
    const bool alike = strcmp(unit[0], unit[1]) == 0;
    const bool are_times = alike && strcmp(unit[0], "s") == 0;
    if (per == GSP_PER_AUTO || (per == GSP_PER_STEP && !(are_times && have_steps(maker, steps))))
        per = are_times && have_steps(maker, steps) ? GSP_PER_STEP : GSP_PER_RUN;
    if (per == GSP_PER_RUN && !alike) {
        per = GSP_PER_SHARE;
        gsp_compare__note_add(
            compare, gsp_compare__text_printf(compare,
                                              "stacks have different units (%s, %s): functions "
                                              "are compared by share",
                                              unit[0], unit[1]));
    }
    compare->per = per;
    compare->unit = per == GSP_PER_SHARE ? "%" : unit[0];
    for (int i = 0; i < 2; i++) {
        struct part *part = &maker->part[i];
        if (per == GSP_PER_STEP)
            slice_steps(part, &steps[i]);
        else
            slice_time(part, per == GSP_PER_SHARE && part->total > 0 ? 100 / part->total : 1);
    }
}

/* ------------------------------------------------------------------------------------------ sums
 */

static void sum_nodes(struct maker *maker, int side)
{
    const struct part *part = &maker->part[side];
    struct gsp_compare_node *nodes = maker->compare->nodes;
    for (size_t i = 0; i < part->stacks->sample_count; i++) {
        const struct gsp_report_sample *sample = &part->stacks->samples[i];
        if (does_count(part, sample) && (part->slices == 0 || slice_of(part, sample->t) < SLICES))
            nodes[part->node_of[sample->node]].own[side] += sample->weight * part->scale;
    }
    for (size_t i = maker->compare->node_count; i-- > 0;) {
        nodes[i].total[side] += nodes[i].own[side];
        if (nodes[i].parent >= 0)
            nodes[nodes[i].parent].total[side] += nodes[i].total[side];
    }
}

static bool calls_itself(const struct gsp_compare *compare, size_t node)
{
    const uint32_t frame = compare->nodes[node].frame;
    for (int32_t at = compare->nodes[node].parent; at >= 0; at = compare->nodes[at].parent)
        if (compare->nodes[at].frame == frame)
            return true;
    return false;
}

static void sum_functions(struct gsp_compare *compare)
{
    for (size_t i = 0; i < compare->node_count; i++) {
        const struct gsp_compare_node *node = &compare->nodes[i];
        struct gsp_compare_function *function = &compare->functions[node->frame];
        const bool is_inner = calls_itself(compare, i);
        for (int side = 0; side < 2; side++) {
            function->row.value[side] += node->own[side];
            function->total[side] += is_inner ? 0 : node->total[side];
        }
    }
    for (size_t i = 0; i < compare->function_count; i++) {
        struct gsp_compare_row *row = &compare->functions[i].row;
        if (row->value[0] > 0)
            row->change = row->value[1] / row->value[0] - 1;
        gsp_compare__row_decide(row);
    }
}

/* ----------------------------------------------------------------------------------------- tests
 */

static int by_change(const void *x, const void *y, void *ctx)
{
    const struct gsp_compare *compare = ctx;
    const uint32_t i = *(const uint32_t *)x;
    const uint32_t k = *(const uint32_t *)y;
    const struct gsp_compare_row *a = &compare->functions[i].row;
    const struct gsp_compare_row *b = &compare->functions[k].row;
    const double a_change = fabs(a->value[1] - a->value[0]);
    const double b_change = fabs(b->value[1] - b->value[0]);
    if (a_change > b_change || a_change < b_change)
        return a_change > b_change ? -1 : 1;
    return (i > k) - (i < k);
}

/* A matrix of functions x SLICES; `row_of` maps a function to its row. */
static double *slices_of(const struct maker *maker, int side, const uint32_t *row_of)
{
    const struct part *part = &maker->part[side];
    double *sums = calloc((size_t)TESTED_MAX * SLICES, sizeof(*sums));
    for (size_t i = 0; sums && i < part->stacks->sample_count; i++) {
        const struct gsp_report_sample *sample = &part->stacks->samples[i];
        const size_t slice = slice_of(part, sample->t);
        if (!does_count(part, sample) || slice == SLICES)
            continue;
        const uint32_t frame = part->stacks->nodes[sample->node].frame;
        const uint32_t row = row_of[part->function_of[frame]];
        if (row < TESTED_MAX)
            sums[(size_t)row * SLICES + slice] += sample->weight / part->divisor[slice];
    }
    return sums;
}

static void test_one(struct gsp_compare *compare, const struct maker *maker,
                     double *const values[2], uint32_t function, size_t matrix_row)
{
    struct gsp_compare_row *row = &compare->functions[function].row;
    struct gsp_compare_values sides[2];
    for (int i = 0; i < 2; i++)
        sides[i] = (struct gsp_compare_values){.values = values[i] + matrix_row * SLICES,
                                               .count = maker->part[i].slices,
                                               .mean = row->value[i]};
    gsp_compare__row_judge(compare, row, sides, &gsp_compare__effort_many);
}

static bool is_tested(const struct gsp_compare *compare, const double all[2], uint32_t function)
{
    const struct gsp_compare_row *row = &compare->functions[function].row;
    const double least = TESTED_PCT_MIN / 100;
    return row->value[0] > least * all[0] || row->value[1] > least * all[1];
}

static void test_functions(struct maker *maker)
{
    struct gsp_compare *compare = maker->compare;
    if (maker->part[0].slices < 4 || maker->part[1].slices < 4)
        return;
    uint32_t *row_of = malloc((compare->function_count + 1) * sizeof(*row_of));
    double all[2] = {0, 0};
    uint32_t count = 0;
    for (size_t i = 0; i < compare->node_count; i++) {
        all[0] += compare->nodes[i].own[0];
        all[1] += compare->nodes[i].own[1];
    }
    for (size_t i = 0; row_of && i < compare->function_count; i++)
        row_of[i] = TESTED_MAX;
    for (size_t i = 0; row_of && i < compare->function_count && count < TESTED_MAX; i++)
        if (is_tested(compare, all, compare->order[i]))
            row_of[compare->order[i]] = count++;
    double *values[2] = {row_of ? slices_of(maker, 0, row_of) : NULL,
                         row_of ? slices_of(maker, 1, row_of) : NULL};
    if (values[0] && values[1]) {
        for (uint32_t i = 0; i < compare->function_count; i++)
            if (row_of[i] < TESTED_MAX)
                test_one(compare, maker, values, i, row_of[i]);
        gsp_compare__rows_correct_p(compare, &compare->functions[0].row, compare->function_count,
                                    sizeof(*compare->functions));
    } else {
        compare->no_memory = true;
    }
    free(values[0]);
    free(values[1]);
    free(row_of);
}

void gsp_compare__functions_sort(struct gsp_compare *compare)
{
    if (!compare->order)
        compare->order = malloc((compare->function_count + 1) * sizeof(*compare->order));
    if (!compare->order) {
        compare->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < compare->function_count; i++)
        compare->order[i] = i;
    qsort_r(compare->order, compare->function_count, sizeof(*compare->order), by_change, compare);
}

void gsp_compare__functions_fill(struct gsp_compare *compare, enum gsp_compare_per per,
                                 const struct gsp_step_series steps[2])
{
    struct maker maker = {.compare = compare};
    for (int i = 0; i < 2; i++)
        maker.part[i].stacks = &compare->side[i]->stacks;
    if (maker.part[0].stacks->node_count == 0 || maker.part[1].stacks->node_count == 0)
        return;
    const bool is_chosen = choose(&maker);
    lay_out(&maker, per, steps);
    if (is_chosen && join(&maker, 0) && join(&maker, 1)) {
        sum_nodes(&maker, 0);
        sum_nodes(&maker, 1);
        sum_functions(compare);
        gsp_compare__functions_sort(compare);
        if (compare->order)
            test_functions(&maker);
    } else {
        compare->no_memory = true;
    }
    for (int i = 0; i < 2; i++) {
        free(maker.part[i].function_of);
        free(maker.part[i].node_of);
        free(maker.part[i].waits_count);
    }
    gsp_hmap_free(&maker.functions);
    gsp_hmap_free(&maker.nodes);
}
