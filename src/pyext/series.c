/* SPDX-License-Identifier: Apache-2.0 */
#include "pyext/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/random.h"

#define FIRST_CAP 16

static void keep(struct gsp_metric_series *series, double value, int64_t at_ns)
{
    const struct gsp_metric_value sample = {value, at_ns};
    if (gsp_likely(series->kept_count < series->kept_cap)) {
        series->kept[series->kept_count++] = sample;
        return;
    }
    if (series->kept_cap == GSP_SERIES_KEPT) {
        /* Reservoir sampling: each value so far has the same chance to be kept. */
        const uint64_t seen = series->count + series->nonfinite;
        const uint64_t index = gsp_random_next(&series->random) % seen;
        if (index < GSP_SERIES_KEPT)
            series->kept[index] = sample;
        return;
    }
    size_t cap = series->kept_cap ? series->kept_cap * 2 : FIRST_CAP;
    cap = cap < GSP_SERIES_KEPT ? cap : GSP_SERIES_KEPT;
    struct gsp_metric_value *grown = realloc(series->kept, cap * sizeof(*grown));
    if (!grown) {
        series->lost++;
        return;
    }
    series->kept = grown;
    series->kept_cap = cap;
    series->kept[series->kept_count++] = sample;
}

void gsp_pyext__series_clear(struct gsp_metric_series *series)
{
    free(series->kept);
    memset(series, 0, sizeof(*series));
}

void gsp_pyext__series_add(struct gsp_metric_series *series, double value, int64_t at_ns,
                           int64_t end_ns)
{
    const bool is_first = series->count + series->nonfinite == 0;
    if (is_first || at_ns < series->first_ns)
        series->first_ns = at_ns;
    if (is_first || end_ns > series->last_ns)
        series->last_ns = end_ns;
    series->last = value;
    if (gsp_unlikely(!isfinite(value))) {
        series->nonfinite++;
    } else {
        series->count++;
        series->sum += value;
        const double from_old = value - series->mean;
        series->mean += from_old / (double)series->count;
        series->m2 += from_old * (value - series->mean);
        series->min = series->count == 1 || value < series->min ? value : series->min;
        series->max = series->count == 1 || value > series->max ? value : series->max;
    }
    keep(series, value, at_ns);
}

double gsp_pyext__series_std(const struct gsp_metric_series *series)
{
    return series->count < 2 ? 0 : sqrt(series->m2 / (double)(series->count - 1));
}
