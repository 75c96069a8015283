/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare_internal.h"
#include "stats/basic.h"
#include "stats/compare.h"

#define CONFIDENCE 0.95

const struct gsp_compare_effort gsp_compare__effort_metric = {
    .rounds = 2000, .blocks_max = 1000, .effect_max = 2000};
const struct gsp_compare_effort gsp_compare__effort_many = {
    .rounds = 1000, .blocks_max = 40, .effect_max = 200};

static void drop_nonfinite(struct gsp_compare_values *side)
{
    size_t kept = 0;
    for (size_t i = 0; i < side->count; i++)
        if (isfinite(side->values[i]))
            side->values[kept++] = side->values[i];
    side->count = kept;
    if (!isfinite(side->mean))
        side->mean = gsp_stats_mean(side->values, kept);
}

/* Selects at most `max` values, evenly spaced. */
static size_t choose(const struct gsp_compare_values *side, size_t max, double *out)
{
    const size_t count = side->count < max ? side->count : max;
    for (size_t i = 0; i < count; i++)
        out[i] = side->values[(size_t)((double)i * (double)side->count / (double)count)];
    return count;
}

static double effect_of(struct gsp_compare *compare, const struct gsp_compare_values sides[2],
                        size_t max)
{
    double *chosen = malloc((2 * max + 1) * sizeof(*chosen));
    if (!chosen) {
        compare->no_memory = true;
        return (double)NAN;
    }
    const size_t a = choose(&sides[0], max, chosen);
    const size_t b = choose(&sides[1], max, chosen + a);
    const double effect = gsp_stats_cliffs_delta(chosen, a, chosen + a, b);
    free(chosen);
    return effect;
}

static bool is_equal(const struct gsp_compare_values sides[2])
{
    return sides[0].count == sides[1].count && sides[0].count > 0 &&
           memcmp(sides[0].values, sides[1].values, sides[0].count * sizeof(double)) == 0;
}

void gsp_compare__row_decide(struct gsp_compare_row *row)
{
    const double difference = row->value[1] - row->value[0];
    row->verdict = GSP_COMPARE_UNKNOWN;
    row->is_significant = false;
    if (isnan(difference))
        return;
    if (isnan(row->p)) {
        /* Equal single values are the same; for others, the difference may be chance. */
        row->verdict = fabs(difference) > 0 ? GSP_COMPARE_UNKNOWN : GSP_COMPARE_SAME;
        return;
    }
    /* Significant only if both the interval and p say so. */
    const bool is_apart = row->difference_low > 0 || row->difference_high < 0;
    row->is_significant = is_apart && row->p < GSP_COMPARE_P_MAX;
    if (!row->is_significant || fabs(row->change) < GSP_COMPARE_CHANGE_MIN)
        row->verdict = GSP_COMPARE_SAME;
    else if (row->better == GSP_BETTER_NEITHER)
        row->verdict = GSP_COMPARE_CHANGED;
    else
        row->verdict = (difference < 0) == (row->better == GSP_BETTER_LOWER) ? GSP_COMPARE_BETTER
                                                                             : GSP_COMPARE_WORSE;
}

/* Computes intervals and p if there are enough values. */
static void test(struct gsp_compare *compare, struct gsp_compare_row *row,
                 const struct gsp_compare_values sides[2], const struct gsp_compare_effort *effort)
{
    const double *const values[2] = {sides[0].values, sides[1].values};
    const struct gsp_stats_comparison_opts opts = {.rounds = effort->rounds,
                                                   .blocks_max = effort->blocks_max,
                                                   .confidence = CONFIDENCE,
                                                   .ordered = !effort->is_unordered};
    struct gsp_stats_comparison found;
    if (!gsp_stats_compare(values, row->count, &opts, &found)) {
        compare->no_memory = true;
        return;
    }
    if (isnan(found.p) || !found.is_enough)
        return;
    row->low = found.share_low;
    row->high = found.share_high;
    row->difference_low = found.low;
    row->difference_high = found.high;
    row->p = found.p;
}

void gsp_compare__row_judge(struct gsp_compare *compare, struct gsp_compare_row *row,
                            struct gsp_compare_values sides[2],
                            const struct gsp_compare_effort *effort)
{
    row->change = row->low = row->high = row->p = row->effect = (double)NAN;
    row->difference_low = row->difference_high = (double)NAN;
    for (int i = 0; i < 2; i++) {
        drop_nonfinite(&sides[i]);
        row->count[i] = sides[i].count;
        row->value[i] = sides[i].mean;
    }
    if (fabs(row->value[0]) > 0)
        row->change = (row->value[1] - row->value[0]) / fabs(row->value[0]);
    else if (!(fabs(row->value[1]) > 0) && !isnan(row->value[1]))
        row->change = 0;
    if (row->count[0] >= 2 && row->count[1] >= 2) {
        row->effect = effect_of(compare, sides, effort->effect_max);
        if (is_equal(sides)) {
            row->low = row->high = row->difference_low = row->difference_high = 0;
            row->p = 1;
        } else {
            test(compare, row, sides, effort);
        }
    }
    gsp_compare__row_decide(row);
}

static struct gsp_compare_row *row_at(struct gsp_compare_row *rows, size_t i, size_t stride)
{
    return (struct gsp_compare_row *)(void *)((char *)rows + i * stride);
}

void gsp_compare__rows_correct_p(struct gsp_compare *compare, struct gsp_compare_row *rows,
                                 size_t count, size_t stride)
{
    double *p = malloc((count + 1) * sizeof(*p));
    for (size_t i = 0; p && i < count; i++)
        p[i] = row_at(rows, i, stride)->p;
    if (!p || !gsp_stats_adjust_p(p, count)) {
        compare->no_memory = true;
        free(p);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct gsp_compare_row *row = row_at(rows, i, stride);
        row->p = p[i];
        gsp_compare__row_decide(row);
    }
    free(p);
}
