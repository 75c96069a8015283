/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/basic.h"

/* Returns the correction for ties in the variance of the test's sum. */
static double tie_correction(const double *sorted, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && sorted[end] <= sorted[i])
            end++;
        const double t = (double)(end - i);
        sum += t * (t - 1) * (2 * t + 5);
        i = end;
    }
    return sum;
}

static double kendall_z(double sum, double ties, double n)
{
    const double variance = (n * (n - 1) * (2 * n + 5) - ties) / 18;
    if (variance <= 0 || fabs(sum) < 1)
        return 0;
    return (sum > 0 ? sum - 1 : sum + 1) / sqrt(variance);
}

bool gsp_stats_trend(const double *t, const double *values, size_t count, struct gsp_trend *out)
{
    *out = (struct gsp_trend){0};
    if (count < 3)
        return true;
    const size_t pairs = count * (count - 1) / 2;
    double *slopes = malloc((pairs + count) * sizeof(*slopes));
    if (!slopes)
        return false;
    double *sorted = slopes + pairs;
    double sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            const double rise = values[k] - values[i];
            sum += (rise > 0) - (rise < 0);
            slopes[at++] = rise / (t ? t[k] - t[i] : (double)(k - i));
        }
    }
    memcpy(sorted, values, count * sizeof(*sorted));
    gsp_stats_sort(sorted, count);
    gsp_stats_sort(slopes, pairs);
    out->z = kendall_z(sum, tie_correction(sorted, count), (double)count);
    out->slope = gsp_stats__quantile(slopes, pairs, 0.5);
    free(slopes);
    return true;
}
