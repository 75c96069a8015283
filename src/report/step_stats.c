/* SPDX-License-Identifier: Apache-2.0 */
#include "report/step_stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantile of sorted values, with linear interpolation. */
static double quantile(const double *sorted, size_t count, double q)
{
    const double position = q * (double)(count - 1);
    const size_t low = (size_t)position;
    const size_t high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (position - (double)low) * (sorted[high] - sorted[low]);
}

struct by_rank {
    int64_t rank;
    double duration_s;
};

static int compare_ranks(const void *a, const void *b)
{
    const struct by_rank *x = a;
    const struct by_rank *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->duration_s > y->duration_s) - (x->duration_s < y->duration_s);
}

/* `room` has space for one double per step. */
static void find_slow_rank(struct by_rank *sorted, size_t count, double *room,
                           struct gsp_step_stats *out)
{
    qsort(sorted, count, sizeof(*sorted), compare_ranks);
    for (size_t from = 0; from < count;) {
        size_t to = from;
        while (to < count && sorted[to].rank == sorted[from].rank)
            to++;
        const double p50_s = sorted[from + (to - from) / 2].duration_s;
        if (sorted[from].rank != GSP_NULL_I64) {
            if (out->rank_count == 0 || p50_s > out->slow_p50_s) {
                out->slow_p50_s = p50_s;
                out->slow_rank = sorted[from].rank;
            }
            room[out->rank_count++] = p50_s;
        }
        from = to;
    }
    if (out->rank_count == 0)
        return;
    qsort(room, out->rank_count, sizeof(*room), compare);
    out->rank_p50_s = quantile(room, out->rank_count, 0.5);
}

int gsp_report__step_stats_compute(const struct gsp_report *report, struct gsp_step_stats *out,
                                   struct gsp_err *err)
{
    const size_t count = report->step_count;
    *out = (struct gsp_step_stats){.count = count,
                                   .p50_s = (double)NAN,
                                   .p95_s = (double)NAN,
                                   .max_s = (double)NAN,
                                   .slow_rank = GSP_NULL_I64};
    if (count == 0)
        return GSP_OK;
    double *sorted = calloc(count, sizeof(*sorted));
    struct by_rank *ranks = calloc(count, sizeof(*ranks));
    if (!sorted || !ranks) {
        free(sorted);
        free(ranks);
        return gsp_err_nomem(err);
    }
    for (size_t i = 0; i < count; i++) {
        const struct gsp_report_step *step = &report->steps[i];
        sorted[i] = step->duration_s;
        ranks[i] = (struct by_rank){step->rank, step->duration_s};
        if (!(out->max_s >= step->duration_s)) {
            out->max_s = step->duration_s;
            out->max_step = step->step;
        }
    }
    qsort(sorted, count, sizeof(*sorted), compare);
    out->p50_s = quantile(sorted, count, 0.5);
    out->p95_s = quantile(sorted, count, 0.95);
    find_slow_rank(ranks, count, sorted, out);
    free(sorted);
    free(ranks);
    return GSP_OK;
}
