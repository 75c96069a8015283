/* SPDX-License-Identifier: Apache-2.0 */
#include "memlog/leak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/basic.h"
#include "stats/trend.h"

#define Z_MIN       3.0
#define LAST_PACE   0.5 /* minimum slope of the last third, relative to the whole */
#define LEAP_MAX    0.5 /* maximum jump in one window, relative to the growth */
#define FALL_MAX    0.5 /* maximum fall, relative to the growth */
#define GROWTH_MIN  65536.0
#define ERRORS_MIN  4.0 /* minimum growth of an estimate, in standard errors */
#define WARMUP_PART 4U

/* ---------------------------------------------------------------------------------- judgement */

/* The median of three values, so that the start and the end do not depend on a single value. */
static double median3(const double *values)
{
    double three[3] = {values[0], values[1], values[2]};
    gsp_stats_sort(three, 3);
    return three[1];
}

static bool is_steady(const double *held, size_t count, double growth)
{
    double top = held[0];
    double fall = 0;
    double leap = 0;
    for (size_t i = 1; i < count; i++) {
        leap = fmax(leap, held[i] - held[i - 1]);
        top = fmax(top, held[i]);
        fall = fmax(fall, top - held[i]);
    }
    return leap <= growth * LEAP_MAX && fall <= growth * FALL_MAX;
}

bool gsp_memlog__leak_check(const double *held, size_t count, double least, double *slope,
                            double *z)
{
    const size_t skip = count / WARMUP_PART;
    struct gsp_trend whole;
    *slope = 0;
    *z = 0;
    if (count < GSP_MEMLOG_LEAK_WINDOWS_MIN)
        return false;
    held += skip;
    count -= skip;
    const double growth = median3(held + count - 3) - median3(held);
    if (growth < least || growth <= 0 || !is_steady(held, count, growth))
        return false;
    const size_t third = count / 3;
    if (!gsp_stats_trend(NULL, held, count, &whole))
        return false;
    /* Use the total growth, not the median slope, because stepwise growth has flat windows. */
    const double pace = growth / (double)(count - 2);
    const double late = (median3(held + count - 3) - held[count - third]) / (double)(third - 1);
    *slope = whole.slope > 0 ? whole.slope : pace;
    *z = whole.z;
    return whole.z >= Z_MIN && late >= pace * LAST_PACE;
}

/* ------------------------------------------------------------------------------------- series */

struct series {
    const struct gsp_memlog *log;
    const struct gsp_memlog_groups *groups;
    size_t stretches;
    int64_t from_ns; /* of the first tick */
    int64_t to_ns;
    double *held; /* by group, then window */
    int64_t *live;
    int64_t *least; /* in the present window */
    double *var;    /* of live, KiB^2 */
    size_t at;      /* the present window */
};

static void series_free(struct series *series)
{
    free(series->held);
    free(series->live);
    free(series->least);
    free(series->var);
}

/* Returns the number of windows, so that each window contains a tick. */
static size_t count_stretches(const struct gsp_memlog *log, int64_t from_ns, int64_t to_ns)
{
    size_t times = 0;
    int64_t gap_ns = 1;
    int64_t last_ns = from_ns;
    for (size_t i = 0; i < gsp_memlog_tick_count(log); i++) {
        const int64_t time_ns = gsp_memlog_tick(log, i)->time_ns;
        if (time_ns > to_ns)
            break;
        times += i == 0 || time_ns > last_ns;
        gap_ns = time_ns - last_ns > gap_ns ? time_ns - last_ns : gap_ns;
        last_ns = time_ns;
    }
    size_t stretches = (size_t)((to_ns - from_ns) / gap_ns) + 1;
    stretches = stretches < GSP_MEMLOG_LEAK_WINDOWS ? stretches : GSP_MEMLOG_LEAK_WINDOWS;
    /* A single long gap does not make a recording too short. */
    if (stretches < GSP_MEMLOG_LEAK_WINDOWS_MIN)
        stretches = GSP_MEMLOG_LEAK_WINDOWS_MIN;
    return stretches < times ? stretches : times;
}

static void end_stretch(struct series *series)
{
    for (size_t g = 0; g < series->groups->count; g++) {
        series->held[g * series->stretches + series->at] = (double)series->least[g];
        series->least[g] = series->live[g];
    }
    series->at++;
}

static void add_tick(struct series *series, const struct gsp_memlog_replay *replay)
{
    for (size_t i = 0; i < replay->changed_count; i++) {
        const uint32_t site = replay->changed[i];
        const struct gsp_memlog_count *now = &replay->counts[site];
        const struct gsp_memlog_count *before = &replay->before[i];
        const uint32_t g = series->groups->of_site[site];
        series->live[g] += (int64_t)(gsp_memlog_count_live(now) - gsp_memlog_count_live(before));
        series->var[g] += (double)now->live_var - (double)before->live_var;
    }
    for (size_t i = 0; i < replay->changed_count; i++) {
        const uint32_t g = series->groups->of_site[replay->changed[i]];
        if (series->live[g] < series->least[g])
            series->least[g] = series->live[g];
    }
}

/* The ticks of several processes follow each other, so sums over processes are not simultaneous. A
 * window is much longer than that difference. */
static int make_series(struct series *series, struct gsp_err *err)
{
    struct gsp_memlog_replay replay;
    int rc = gsp_memlog_replay_begin(&replay, series->log, err);
    if (rc < 0)
        return rc;
    const struct gsp_memlog_tick *tick;
    const double span = (double)(series->to_ns - series->from_ns) + 1;
    while ((tick = gsp_memlog_tick(series->log, replay.next)) && tick->time_ns <= series->to_ns) {
        if (!gsp_memlog_replay_next(&replay)) {
            rc = gsp_err_nomem(err);
            break;
        }
        const double share = (double)(tick->time_ns - series->from_ns) / span;
        const size_t stretch = (size_t)(share * (double)series->stretches);
        while (series->at < stretch)
            end_stretch(series);
        add_tick(series, &replay);
    }
    while (series->at < series->stretches)
        end_stretch(series);
    gsp_memlog_replay_end(&replay);
    return rc;
}

/* ------------------------------------------------------------------------------------- leaks */

/* Returns the number of steps between two times, of the process with the most steps. */
static double steps_between(const struct gsp_memlog *log, int64_t from_ns, int64_t to_ns)
{
    double best = (double)NAN;
    for (size_t p = 0; gsp_memlog_process(log, p); p++) {
        int64_t first = GSP_MEMLOG_UNKNOWN;
        int64_t last = GSP_MEMLOG_UNKNOWN;
        for (size_t i = 0; i < gsp_memlog_tick_count(log); i++) {
            const struct gsp_memlog_tick *tick = gsp_memlog_tick(log, i);
            const int64_t step = tick->total[GSP_MEMTOTAL_STEP];
            if (tick->process != p || step == GSP_MEMLOG_UNKNOWN || tick->time_ns < from_ns ||
                tick->time_ns > to_ns)
                continue;
            first = first == GSP_MEMLOG_UNKNOWN ? step : first;
            last = step;
        }
        if (first != GSP_MEMLOG_UNKNOWN && last > first)
            best = isnan(best) ? (double)(last - first) : fmax(best, (double)(last - first));
    }
    return best;
}

static int by_pace(const void *a, const void *b)
{
    const struct gsp_memlog_leak *x = a;
    const struct gsp_memlog_leak *y = b;
    if (x->bytes_per_s != y->bytes_per_s)
        return x->bytes_per_s < y->bytes_per_s ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

static void judge_all(const struct series *series, struct gsp_memlog_leaks *out)
{
    const double stretch_s =
        (double)(series->to_ns - series->from_ns) / 1e9 / (double)series->stretches;
    const double seconds = (double)(out->to_ns - out->from_ns) / 1e9;
    for (uint32_t g = 0; g < series->groups->count; g++) {
        const double *held = series->held + g * series->stretches;
        const double error = 1024 * sqrt(fmax(series->var[g], 0));
        const double least = fmax(GROWTH_MIN, ERRORS_MIN * error);
        double slope = 0;
        double z = 0;
        if (!gsp_memlog__leak_check(held, series->stretches, least, &slope, &z))
            continue;
        struct gsp_memlog_leak *leak = &out->at[out->count++];
        *leak = (struct gsp_memlog_leak){.group = g, .z = z, .bytes_per_step = (double)NAN};
        leak->bytes_per_s = slope / stretch_s;
        leak->bytes_per_step = leak->bytes_per_s * seconds / out->steps;
        leak->live_bytes = series->live[g];
        leak->growth_bytes = series->live[g] - (int64_t)held[series->stretches / WARMUP_PART];
    }
    if (out->count)
        qsort(out->at, out->count, sizeof(*out->at), by_pace);
}

static int find_leaks(struct series *series, struct gsp_memlog_leaks *out, struct gsp_err *err)
{
    const size_t groups = series->groups->count + 1;
    series->held = calloc(groups * series->stretches + 1, sizeof(*series->held));
    series->live = calloc(groups, sizeof(*series->live));
    series->least = calloc(groups, sizeof(*series->least));
    series->var = calloc(groups, sizeof(*series->var));
    out->at = calloc(groups, sizeof(*out->at));
    if (!series->held || !series->live || !series->least || !series->var || !out->at)
        return gsp_err_nomem(err);
    int rc = make_series(series, err);
    if (rc == GSP_OK)
        judge_all(series, out);
    return rc;
}

int gsp_memlog_leaks_find(const struct gsp_memlog *log, const struct gsp_memlog_groups *groups,
                          struct gsp_memlog_leaks *out, struct gsp_err *err)
{
    const struct gsp_memlog_tick *first = gsp_memlog_tick(log, 0);
    struct series series = {.log = log, .groups = groups};
    *out = (struct gsp_memlog_leaks){.steps = (double)NAN};
    if (!first)
        return GSP_OK;
    series.from_ns = first->time_ns;
    series.to_ns = gsp_memlog_end_ns(log);
    series.stretches = count_stretches(log, series.from_ns, series.to_ns);
    out->stretches = series.stretches;
    if (series.stretches < GSP_MEMLOG_LEAK_WINDOWS_MIN)
        return GSP_OK;
    out->from_ns = series.from_ns + (series.to_ns - series.from_ns) / (int64_t)WARMUP_PART;
    out->to_ns = series.to_ns;
    out->steps = steps_between(log, out->from_ns, out->to_ns);
    int rc = find_leaks(&series, out, err);
    series_free(&series);
    if (rc < 0)
        gsp_memlog_leaks_free(out);
    return rc;
}

void gsp_memlog_leaks_free(struct gsp_memlog_leaks *leaks)
{
    free(leaks->at);
    *leaks = (struct gsp_memlog_leaks){0};
}
