/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/basic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Longer series are reduced to this number of block means before autocorrelation is computed. */
#define THIN_MAX     4096U
/* The sum of autocorrelations ends at this many times the autocorrelation time found so far. */
#define WINDOW       5.0
/* A correlation of neighbours below this many standard errors counts as none. */
#define CHANCE       1.3
#define FRACTION_MAX 300

double gsp_stats_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count > 0 ? sum / (double)count : (double)NAN;
}

double gsp_stats__variance(const double *values, size_t count)
{
    if (count < 2)
        return 0;
    const double mean = gsp_stats_mean(values, count);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sum / (double)(count - 1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

void gsp_stats_sort(double *values, size_t count)
{
    if (count > 1)
        qsort(values, count, sizeof(*values), compare);
}

double gsp_stats__quantile(const double *sorted, size_t count, double share)
{
    if (count == 0)
        return (double)NAN;
    const double at = fmin(fmax(share, 0), 1) * (double)(count - 1);
    const size_t below = (size_t)at;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

static void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

double gsp_stats__select(double *values, size_t count, size_t rank)
{
    size_t low = 0;
    size_t high = count - 1;
    while (low < high) {
        const double pivot = values[low + (high - low) / 2];
        size_t i = low;
        size_t k = high;
        /* Afterwards values[0..k] <= pivot and values[i..] >= pivot. */
        while (i <= k) {
            while (values[i] < pivot)
                i++;
            while (values[k] > pivot)
                k--;
            if (i <= k) {
                swap(&values[i], &values[k]);
                i++;
                if (k == 0)
                    break;
                k--;
            }
        }
        if (rank <= k)
            high = k;
        else if (rank >= i)
            low = i;
        else
            break;
    }
    return values[rank];
}

double gsp_stats__normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

/* ------------------------------------------------------------------------ Student's t */

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
    const double least = 1e-300;
    double front = 1;
    double back = 1 - (a + b) * x / (a + 1);
    back = 1 / (fabs(back) < least ? least : back);
    double value = back;
    for (int m = 1; m < FRACTION_MAX; m++) {
        double before = value;
        for (int half = 0; half < 2; half++) {
            const double term = half == 0
                                    ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                    : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
            back = 1 + term * back;
            back = 1 / (fabs(back) < least ? least : back);
            front = 1 + term / front;
            front = fabs(front) < least ? least : front;
            value *= front * back;
        }
        if (fabs(value - before) <= 1e-13 * fabs(value))
            break;
    }
    return value;
}

/* The regularized incomplete beta function. */
static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    const double scale = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return scale * beta_fraction(a, b, x) / a;
    return 1 - scale * beta_fraction(b, a, 1 - x) / b;
}

double gsp_stats__t_tail(double t, double freedom)
{
    if (isnan(t) || !(freedom > 0))
        return (double)NAN;
    if (isinf(t))
        return 0;
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double gsp_stats__t_quantile(double tail, double freedom)
{
    double low = 0;
    double high = 1;
    while (high < 1e12 && gsp_stats__t_tail(high, freedom) > tail)
        high *= 2;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (gsp_stats__t_tail(middle, freedom) > tail)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* ------------------------------------------------------------------------ time series */

void gsp_stats__block_means(const double *values, size_t count, double *means, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        const size_t from = (size_t)((double)count * (double)i / (double)blocks);
        const size_t to =
            i + 1 == blocks ? count : (size_t)((double)count * (double)(i + 1) / (double)blocks);
        means[i] = gsp_stats_mean(values + from, to - from);
    }
}

/* The integrated autocorrelation time: the sum of the correlations at all lags, both ways. */
static double autocorrelation_time(const double *values, size_t count)
{
    const double mean = gsp_stats_mean(values, count);
    const double spread = gsp_stats__variance(values, count) * (double)(count - 1);
    if (!(spread > 0))
        return 1;
    double sum = 1;
    for (size_t lag = 1; lag < count / 2; lag++) {
        double product = 0;
        for (size_t i = lag; i < count; i++)
            product += (values[i] - mean) * (values[i - lag] - mean);
        const double correlation = product / spread;
        /* Independent values also show this much correlation by chance. */
        if (lag == 1 && correlation < CHANCE / sqrt((double)count))
            return 1;
        sum += 2 * correlation;
        if ((double)lag >= WINDOW * sum)
            break;
    }
    return fmax(sum, 1);
}

bool gsp_stats__autocorrelation_time(const double *values, size_t count, double *out)
{
    *out = 1;
    if (count < 8)
        return true;
    if (count <= THIN_MAX) {
        *out = autocorrelation_time(values, count);
        return true;
    }
    double *means = malloc(THIN_MAX * sizeof(*means));
    if (!means)
        return false;
    gsp_stats__block_means(values, count, means, THIN_MAX);
    const double of_means = autocorrelation_time(means, THIN_MAX);
    /* Uncorrelated means can hide correlated values: use the first values instead. */
    *out =
        of_means > 1 ? of_means * (double)count / THIN_MAX : autocorrelation_time(values, THIN_MAX);
    free(means);
    return true;
}

bool gsp_stats_warmup(const double *values, size_t count, size_t *out)
{
    *out = 0;
    if (count < 4)
        return true;
    const size_t half = count / 2;
    double *later = malloc((count - half) * sizeof(*later));
    if (!later)
        return false;
    memcpy(later, values + half, (count - half) * sizeof(*later));
    gsp_stats_sort(later, count - half);
    const double lower = gsp_stats__quantile(later, count - half, 0.25);
    const double upper = gsp_stats__quantile(later, count - half, 0.75);
    /* If the values are almost constant, a tiny difference does not count as warm-up. */
    const double width = fmax(upper - lower, 0.01 * fabs(upper));
    while (*out < half && values[*out] > upper + 3 * width)
        (*out)++;
    free(later);
    return true;
}

size_t gsp_stats_startup(const double *values, size_t count)
{
    if (count < 8)
        return 0;
    /* Walk backwards, and keep mean and sum of squares of the values from i on (Welford). */
    double mean = 0;
    double spread = 0;
    double least = (double)INFINITY;
    size_t best = 0;
    for (size_t i = count; i-- > 0;) {
        const double n = (double)(count - i);
        const double from_old = values[i] - mean;
        mean += from_old / n;
        spread += from_old * (values[i] - mean);
        /* Prefer the longer rest if the errors differ only by rounding. */
        const double error2 = spread / (n * n);
        if (i <= count / 2 && error2 <= least * (1 + 1e-9)) {
            least = error2;
            best = i;
        }
    }
    return best;
}

/* ------------------------------------------------------------------------ effect size, p-values */

double gsp_stats_cliffs_delta(double *a, size_t a_count, double *b, size_t b_count)
{
    if (a_count == 0 || b_count == 0)
        return 0;
    gsp_stats_sort(a, a_count);
    gsp_stats_sort(b, b_count);
    double sum = 0;
    size_t below = 0;
    size_t above = 0;
    for (size_t i = 0; i < b_count; i++) {
        while (below < a_count && a[below] < b[i])
            below++;
        while (above < a_count && a[above] <= b[i])
            above++;
        sum += (double)below - (double)(a_count - above);
    }
    return sum / (double)a_count / (double)b_count;
}

bool gsp_stats_adjust_p(double *p, size_t count)
{
    double *sorted = malloc((count + 1) * sizeof(*sorted));
    if (!sorted)
        return false;
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(p[i]))
            sorted[known++] = p[i];
    gsp_stats_sort(sorted, known);
    double *adjusted = malloc((known + 1) * sizeof(*adjusted));
    double least = 1;
    for (size_t i = known; adjusted && i > 0; i--) {
        least = fmin(least, sorted[i - 1] * (double)known / (double)i);
        adjusted[i - 1] = least;
    }
    for (size_t i = 0; adjusted && i < count; i++) {
        const double *found =
            isnan(p[i]) ? NULL : bsearch(&p[i], sorted, known, sizeof(*sorted), compare);
        /* Equal p-values have the same adjusted value, so any match will do. */
        if (found)
            p[i] = adjusted[found - sorted];
    }
    const bool ok = adjusted != NULL;
    free(sorted);
    free(adjusted);
    return ok;
}
