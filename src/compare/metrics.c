/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare_internal.h"
#include "stats/basic.h"

/* Maximum number of time intervals for the sum of several series. */
#define STRETCHES_MAX 4096U

/* How the series of a chart are combined, and which direction is better. */
struct chart_rule {
    const char *id;
    enum gsp_compare_better better;
    bool is_sum;   /* sum of the series; otherwise their mean */
    bool is_level; /* a level that rises at startup: the rise is excluded, and the peak is a metric
                    */
    bool is_apart; /* the series measure different things and are not combined */
};

static const struct chart_rule RULES[] = {
    {"cpu", GSP_BETTER_NEITHER, true, false, false},
    {"rss", GSP_BETTER_LOWER, true, true, false},
    {"gpu_util", GSP_BETTER_HIGHER, false, false, false},
    {"gpu_memory", GSP_BETTER_LOWER, true, true, false},
    {"gpu_power", GSP_BETTER_LOWER, true, false, false},
    {"gpu_temperature", GSP_BETTER_LOWER, false, false, false},
    {"torch_memory", GSP_BETTER_LOWER, true, true, false},
    {"power", GSP_BETTER_LOWER, true, false, false},
    {"machine_memory", GSP_BETTER_NEITHER, true, true, false},
    {"pressure", GSP_BETTER_NEITHER, false, false, true},
    {"disk", GSP_BETTER_NEITHER, true, false, false},
    {"network", GSP_BETTER_NEITHER, true, false, false},
};

static const struct chart_rule *rule_of(struct gsp_sv id)
{
    static const struct chart_rule other = {0};
    for (size_t i = 0; i < GSP_COUNT(RULES); i++)
        if (gsp_sv_eq(id, gsp_sv_of(RULES[i].id)))
            return &RULES[i];
    return &other;
}

static struct gsp_compare_row *add_row(struct gsp_compare *compare, struct gsp_sv name,
                                       struct gsp_sv unit, enum gsp_compare_better better)
{
    if (!gsp_compare__array_fit(compare, &compare->metrics, compare->metric_count))
        return NULL;
    struct gsp_compare_row *row = &compare->metrics[compare->metric_count++];
    *row = (struct gsp_compare_row){.name = name, .unit = unit, .better = better};
    return row;
}

/* Adds a metric with one value per side, if both are known. */
static void add_single(struct gsp_compare *compare, const char *name, const char *unit,
                       enum gsp_compare_better better, const double values[2])
{
    if (!isfinite(values[0]) || !isfinite(values[1]))
        return;
    double copies[2] = {values[0], values[1]};
    struct gsp_compare_values sides[2] = {{.values = &copies[0], .count = 1, .mean = values[0]},
                                          {.values = &copies[1], .count = 1, .mean = values[1]}};
    struct gsp_compare_row *row = add_row(compare, gsp_sv_of(name), gsp_sv_of(unit), better);
    if (row)
        gsp_compare__row_judge(compare, row, sides, &gsp_compare__effort_metric);
}

/* ----------------------------------------------------------------------------------------- steps
 */

/* Steps per second: the reciprocal of the step time and its interval. */
static void add_throughput(struct gsp_compare *compare, const struct gsp_compare_row *time)
{
    struct gsp_compare_row turned = *time;
    turned.name = gsp_sv_of("throughput");
    turned.unit = gsp_sv_of("steps/s");
    turned.better = GSP_BETTER_HIGHER;
    for (int i = 0; i < 2; i++)
        turned.value[i] = 1 / time->value[i];
    turned.change = turned.value[1] / turned.value[0] - 1;
    turned.low = 1 / (1 + time->high) - 1;
    turned.high = 1 / (1 + time->low) - 1;
    turned.difference_low = turned.low * turned.value[0];
    turned.difference_high = turned.high * turned.value[0];
    turned.effect = -time->effect;
    gsp_compare__row_decide(&turned);
    struct gsp_compare_row *row = add_row(compare, turned.name, turned.unit, turned.better);
    if (row)
        *row = turned;
}

static void add_steps(struct gsp_compare *compare, const struct gsp_step_series steps[2])
{
    struct gsp_compare_values sides[2];
    for (int i = 0; i < 2; i++)
        sides[i] = (struct gsp_compare_values){.values = steps[i].duration_s + steps[i].warmup,
                                               .count = steps[i].count - steps[i].warmup,
                                               .mean = (double)NAN};
    if (sides[0].count == 0 || sides[1].count == 0)
        return;
    struct gsp_compare_row *row =
        add_row(compare, gsp_sv_of("step_time"), gsp_sv_of("s"), GSP_BETTER_LOWER);
    if (!row)
        return;
    gsp_compare__row_judge(compare, row, sides, &gsp_compare__effort_metric);
    if (row->value[0] > 0 && row->value[1] > 0) {
        const struct gsp_compare_row time = *row;
        add_throughput(compare, &time);
    }
}

/* ---------------------------------------------------------------------------------------- charts
 */

/* The points of a series; for a series of bins, the middle of each pair of extremes. */
static struct gsp_compare_values points_of(struct gsp_compare *compare,
                                           const struct gsp_report_series *line)
{
    struct gsp_compare_values side = {.values = calloc(line->count + 1, sizeof(double)),
                                      .mean =
                                          line->stats.count > 0 ? line->stats.mean : (double)NAN};
    if (!side.values) {
        compare->no_memory = true;
        return side;
    }
    for (size_t i = 0; i < line->count; i++)
        if (!line->is_binned)
            side.values[side.count++] = line->v[i];
        else if (i % 2 == 1)
            side.values[side.count++] = (line->v[i - 1] + line->v[i]) / 2;
    return side;
}

static void extent_of(const struct gsp_report_chart *chart, double *begin, double *end,
                      size_t *most)
{
    *begin = (double)INFINITY;
    *end = -(double)INFINITY;
    *most = 0;
    for (size_t i = 0; i < chart->series_count; i++) {
        const struct gsp_report_series *line = &chart->series[i];
        if (line->count == 0)
            continue;
        *begin = fmin(*begin, line->t[0]);
        *end = fmax(*end, line->t[line->count - 1]);
        *most = line->count > *most ? line->count : *most;
    }
}

/* Adds the mean of the points in each interval. */
static void add_line(const struct gsp_report_series *line, double begin, double width,
                     struct gsp_compare_values *side, double *lines)
{
    double sum = 0;
    size_t count = 0;
    size_t interval = 0;
    for (size_t i = 0; i <= line->count; i++) {
        size_t next = interval;
        if (i < line->count && isfinite(line->v[i])) {
            next = (size_t)fmax((line->t[i] - begin) / width, 0);
            next = next < side->count ? next : side->count - 1;
        }
        if ((i == line->count || next != interval) && count > 0) {
            side->values[interval] += sum / (double)count;
            lines[interval]++;
            sum = 0;
            count = 0;
        }
        interval = next;
        if (i < line->count && isfinite(line->v[i])) {
            sum += line->v[i];
            count++;
        }
    }
}

/* Combines the series of a chart: the sum or mean of each interval. */
static struct gsp_compare_values lines_of(struct gsp_compare *compare,
                                          const struct gsp_report_chart *chart, bool is_sum)
{
    double begin = 0;
    double end = 0;
    size_t most = 0;
    if (chart->series_count == 1)
        return points_of(compare, &chart->series[0]);
    extent_of(chart, &begin, &end, &most);
    /* Two points per interval, so that small clock differences leave no interval empty. */
    size_t count = most / 2 < STRETCHES_MAX ? most / 2 : STRETCHES_MAX;
    count = count > 0 ? count : 1;
    struct gsp_compare_values side = {
        .values = calloc(count + 1, sizeof(double)), .count = count, .mean = (double)NAN};
    double *lines = calloc(count + 1, sizeof(double));
    if (!side.values || !lines) {
        compare->no_memory = true;
        side.count = 0;
    }
    const double width = fmax((end - begin) / (double)count, 1e-9);
    for (size_t i = 0; side.count > 0 && i < chart->series_count; i++)
        add_line(&chart->series[i], begin, width, &side, lines);
    for (size_t i = 0; i < side.count; i++)
        if (lines[i] < 1)
            side.values[i] = (double)NAN;
        else if (!is_sum)
            side.values[i] /= lines[i];
    free(lines);
    return side;
}

/* Removes the pid: "train.py (4242)" of one run matches "train.py (4711)" of the other. */
static struct gsp_sv plain_name(struct gsp_sv name)
{
    if (name.len == 0 || name.p[name.len - 1] != ')')
        return name;
    size_t at = name.len - 1;
    while (at > 0 && name.p[at - 1] >= '0' && name.p[at - 1] <= '9')
        at--;
    if (at == name.len - 1 || at < 2 || name.p[at - 1] != '(' || name.p[at - 2] != ' ')
        return name;
    return (struct gsp_sv){name.p, at - 2};
}

/* The n-th series with this name; NULL if it does not exist. */
static const struct gsp_report_series *line_named(const struct gsp_report_chart *chart,
                                                  struct gsp_sv name, size_t n)
{
    for (size_t i = 0; i < chart->series_count; i++)
        if (gsp_sv_eq(plain_name(chart->series[i].name), name) && n-- == 0)
            return &chart->series[i];
    return NULL;
}

static size_t same_before(const struct gsp_report_chart *chart, size_t i)
{
    size_t count = 0;
    for (size_t k = 0; k < i; k++)
        count += gsp_sv_eq(plain_name(chart->series[k].name), plain_name(chart->series[i].name));
    return count;
}

/* Removes the rise at startup. */
static void drop_startup(struct gsp_compare_values *side)
{
    size_t kept = 0;
    if (!side->values)
        return;
    for (size_t i = 0; i < side->count; i++)
        if (isfinite(side->values[i]))
            side->values[kept++] = side->values[i];
    const size_t from = gsp_stats_startup(side->values, kept);
    side->count = kept - from;
    memmove(side->values, side->values + from, side->count * sizeof(double));
    if (from > 0)
        side->mean = (double)NAN;
}

static void add_pair(struct gsp_compare *compare, struct gsp_sv name,
                     const struct gsp_report_chart *chart, struct gsp_compare_values sides[2])
{
    if (rule_of(chart->id)->is_level) {
        drop_startup(&sides[0]);
        drop_startup(&sides[1]);
    }
    struct gsp_compare_row *row = add_row(compare, name, chart->unit, rule_of(chart->id)->better);
    if (row)
        gsp_compare__row_judge(compare, row, sides, &gsp_compare__effort_metric);
    free(sides[0].values);
    free(sides[1].values);
}

/* Adds each series that both charts have. */
static void add_lines(struct gsp_compare *compare, const struct gsp_report_chart *a,
                      const struct gsp_report_chart *b)
{
    for (size_t i = 0; i < a->series_count; i++) {
        const struct gsp_sv name = plain_name(a->series[i].name);
        const size_t n = same_before(a, i);
        const struct gsp_report_series *other = line_named(b, name, n);
        if (!other)
            continue;
        struct gsp_buf text = {0};
        gsp_buf_putsv(&text, a->id);
        gsp_buf_puts(&text, ": ");
        gsp_buf_term(&text, name);
        if (n > 0)
            gsp_buf_printf(&text, " #%zu", n + 1);
        struct gsp_compare_values sides[2] = {points_of(compare, &a->series[i]),
                                              points_of(compare, other)};
        add_pair(compare, gsp_compare__text_keep(compare, &text), a, sides);
    }
}

static void add_charts(struct gsp_compare *compare)
{
    for (size_t i = 0; i < compare->side[0]->chart_count; i++) {
        const struct gsp_report_chart *a = &compare->side[0]->charts[i];
        const struct gsp_report_chart *b = gsp_report_chart_named(compare->side[1], a->id);
        if (!b || a->series_count == 0 || b->series_count == 0 ||
            gsp_sv_eq(a->id, gsp_sv_of("steps")))
            continue;
        if (!gsp_sv_eq(a->unit, b->unit)) {
            gsp_compare__note_add(
                compare, gsp_compare__text_printf(compare,
                                                  "%.*s has different units (%.*s, %.*s) and is "
                                                  "not compared",
                                                  (int)a->id.len, a->id.p, (int)a->unit.len,
                                                  a->unit.p, (int)b->unit.len, b->unit.p));
            continue;
        }
        const struct chart_rule *rule = rule_of(a->id);
        if (!rule->is_apart) {
            struct gsp_compare_values sides[2] = {lines_of(compare, a, rule->is_sum),
                                                  lines_of(compare, b, rule->is_sum)};
            add_pair(compare, a->id, a, sides);
        }
        if (rule->is_apart || a->series_count > 1 || b->series_count > 1)
            add_lines(compare, a, b);
    }
}

/* ---------------------------------------------------------------------------------------- totals
 */

/* The integral of a mean rate: CPU percent to seconds, watts to joules. */
static void add_integral(struct gsp_compare *compare, const char *of, const char *name,
                         const char *unit, double scale)
{
    const struct gsp_compare_row *rate = gsp_compare__metric_find(compare, of);
    if (!rate)
        return;
    const double values[2] = {rate->value[0] * scale * compare->side[0]->duration_s,
                              rate->value[1] * scale * compare->side[1]->duration_s};
    add_single(compare, name, unit, GSP_BETTER_LOWER, values);
}

/* The highest value of the sum of all series. */
static double highest(struct gsp_compare *compare, const struct gsp_report_chart *chart)
{
    struct gsp_compare_values side = lines_of(compare, chart, true);
    double found = (double)NAN;
    for (size_t i = 0; i < side.count; i++)
        found = fmax(found, side.values[i]); /* fmax() ignores NaN */
    free(side.values);
    return chart->series_count == 1 ? chart->series[0].stats.max : found;
}

static void add_peak(struct gsp_compare *compare, const char *of, const char *name)
{
    const struct gsp_report_chart *const charts[2] = {gsp_report_chart_find(compare->side[0], of),
                                                      gsp_report_chart_find(compare->side[1], of)};
    if (!charts[0] || !charts[1])
        return;
    const double values[2] = {highest(compare, charts[0]), highest(compare, charts[1])};
    add_single(compare, name, "bytes", GSP_BETTER_LOWER, values);
}

void gsp_compare__metrics_fill(struct gsp_compare *compare, const struct gsp_step_series steps[2])
{
    const struct gsp_report *const *side = compare->side;
    /* The user decides how long a session lasts, so its wall time is not compared. */
    const bool are_runs =
        side[0]->kind != GSP_REPORT_SESSION && side[1]->kind != GSP_REPORT_SESSION;
    const double lengths[2] = {side[0]->duration_s, side[1]->duration_s};
    const double peaks[2] = {side[0]->memory.peak_rss_bytes, side[1]->memory.peak_rss_bytes};
    if (compare->no_memory)
        return; /* the steps are missing */
    add_steps(compare, steps);
    if (are_runs)
        add_single(compare, "wall_time", "s", GSP_BETTER_LOWER, lengths);
    const double growths[2] = {side[0]->memory.growth_bytes_per_s,
                               side[1]->memory.growth_bytes_per_s};
    add_single(compare, "peak_rss", "bytes", GSP_BETTER_LOWER, peaks);
    add_peak(compare, "gpu_memory", "peak_gpu_memory");
    add_single(compare, "rss_growth", "bytes/s", GSP_BETTER_LOWER, growths);
    const size_t first = compare->metric_count;
    add_charts(compare);
    if (compare->metric_count > first)
        gsp_compare__rows_correct_p(compare, compare->metrics + first,
                                    compare->metric_count - first, sizeof(*compare->metrics));
    if (are_runs) {
        add_integral(compare, "cpu", "cpu_time", "s", 0.01);
        add_integral(compare, "power", "energy", "J", 1);
    }
}
