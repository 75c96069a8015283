/* SPDX-License-Identifier: Apache-2.0 */
#include "pyext/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#define FIRST_CAP 16
/* So many ways of dealing values out are tried one by one. */
#define WAYS_MAX  20000

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    return gsp_mix64(*state);
}

/* 0 <= result < n, for n below 2^32. */
static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(((next_random(state) >> 32) * n) >> 32);
}

static void keep(struct gsp_series *series, double value, int64_t at_ns)
{
    const struct gsp_sample sample = {value, at_ns};
    if (gsp_likely(series->kept_count < series->kept_cap)) {
        series->kept[series->kept_count++] = sample;
        return;
    }
    if (series->kept_cap == GSP_SERIES_KEPT) {
        /* Each of the values so far has the same chance to be among the kept ones. */
        const uint64_t seen = series->count + series->nonfinite;
        const uint64_t place = next_random(&series->random) % seen;
        if (place < GSP_SERIES_KEPT) {
            series->kept[place] = sample;
        }
        return;
    }
    size_t cap = series->kept_cap ? series->kept_cap * 2 : FIRST_CAP;
    cap = cap < GSP_SERIES_KEPT ? cap : GSP_SERIES_KEPT;
    struct gsp_sample *grown = realloc(series->kept, cap * sizeof(*grown));
    if (!grown) {
        series->lost++;
        return;
    }
    series->kept = grown;
    series->kept_cap = cap;
    series->kept[series->kept_count++] = sample;
}

void gsp_pyext__series_clear(struct gsp_series *series)
{
    free(series->kept);
    memset(series, 0, sizeof(*series));
}

void gsp_pyext__series_add(struct gsp_series *series, double value, int64_t at_ns, int64_t end_ns)
{
    const bool is_first = series->count + series->nonfinite == 0;
    if (is_first || at_ns < series->first_ns) {
        series->first_ns = at_ns;
    }
    if (is_first || end_ns > series->last_ns) {
        series->last_ns = end_ns;
    }
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

double gsp_pyext__series_std(const struct gsp_series *series)
{
    return series->count < 2 ? 0 : sqrt(series->m2 / (double)(series->count - 1));
}

/* ------------------------------------------------------------------- two of them compared */

static double sum_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

static double drawn_mean(const double *values, size_t count, uint64_t *random)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[below(random, count)];
    }
    return sum / (double)count;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bootstrap(const double *const values[2], const size_t counts[2], double *means,
                      size_t rounds, uint64_t *random)
{
    for (size_t i = 0; i < rounds; i++) {
        const double first = drawn_mean(values[0], counts[0], random);
        means[i] = drawn_mean(values[1], counts[1], random) - first;
    }
    qsort(means, rounds, sizeof(*means), compare);
}

/* How many ways there are to choose k of n; WAYS_MAX + 1 for more than that. */
static size_t ways(size_t n, size_t k)
{
    double product = 1;
    for (size_t i = 1; i <= k && product <= WAYS_MAX; i++) {
        product = product * (double)(n - k + i) / (double)i;
    }
    return product > WAYS_MAX ? WAYS_MAX + 1 : (size_t)(product + 0.5);
}

struct rounds {
    double *means; /* a number for each */
    size_t count;
    double confidence;
};

struct deal {
    double *pool; /* the values of both */
    size_t count;
    size_t of_first; /* how many belong to the first */
    double sum;
    double limit; /* differences from here on count */
};

static bool reaches(const struct deal *deal, double first_sum)
{
    const double first = first_sum / (double)deal->of_first;
    const double second = (deal->sum - first_sum) / (double)(deal->count - deal->of_first);
    return fabs(second - first) >= deal->limit;
}

/* Every choice of places for the first one's values, in order; p of all of them. */
static bool all_ways(const struct deal *deal, double *p)
{
    size_t *places = malloc((deal->of_first + 1) * sizeof(*places));
    if (!places) {
        return false;
    }
    const size_t k = deal->of_first;
    size_t hits = 0;
    size_t tried = 0;
    for (size_t i = 0; i < k; i++) {
        places[i] = i;
    }
    size_t moving = k;
    while (moving > 0) {
        double sum = 0;
        for (size_t i = 0; i < k; i++) {
            sum += deal->pool[places[i]];
        }
        tried++;
        hits += reaches(deal, sum) ? 1 : 0;
        moving = k;
        while (moving > 0 && places[moving - 1] == deal->count - k + moving - 1) {
            moving--;
        }
        if (moving > 0) {
            places[moving - 1]++;
            for (size_t i = moving; i < k; i++) {
                places[i] = places[i - 1] + 1;
            }
        }
    }
    free(places);
    *p = (double)hits / (double)tried;
    return true;
}

static double some_ways(const struct deal *deal, size_t rounds, uint64_t *random)
{
    size_t hits = 0;
    for (size_t round = 0; round < rounds; round++) {
        double sum = 0;
        for (size_t i = 0; i < deal->of_first; i++) {
            const size_t other = i + below(random, deal->count - i);
            const double value = deal->pool[other];
            deal->pool[other] = deal->pool[i];
            deal->pool[i] = value;
            sum += value;
        }
        hits += reaches(deal, sum) ? 1 : 0;
    }
    /* What was seen is one of the ways, so p is never 0. */
    return (double)(hits + 1) / (double)(rounds + 1);
}

/* pool has room for the values of both sides. */
static bool contrast(const double *const values[2], const size_t counts[2], struct rounds *rounds,
                     double *pool, struct gsp_contrast *out)
{
    uint64_t random = 1;
    bootstrap(values, counts, rounds->means, rounds->count, &random);
    const double last = (double)(rounds->count - 1);
    const double tail = (1 - rounds->confidence) / 2;
    out->low = rounds->means[(size_t)(tail * last)];
    out->high = rounds->means[(size_t)((1 - tail) * last + 0.5)];
    memcpy(pool, values[0], counts[0] * sizeof(*pool));
    memcpy(pool + counts[0], values[1], counts[1] * sizeof(*pool));
    const double sums[2] = {sum_of(values[0], counts[0]), sum_of(values[1], counts[1])};
    const double seen = sums[1] / (double)counts[1] - sums[0] / (double)counts[0];
    const struct deal deal = {
        .pool = pool,
        .count = counts[0] + counts[1],
        .of_first = counts[0],
        .sum = sums[0] + sums[1],
        /* Sums in another order differ in their last digits. */
        .limit = fabs(seen) * (1 - 1e-9),
    };
    out->is_exact = ways(deal.count, deal.of_first) <= WAYS_MAX;
    if (out->is_exact) {
        return all_ways(&deal, &out->p);
    }
    out->p = some_ways(&deal, rounds->count, &random);
    return true;
}

bool gsp_pyext__series_contrast(const double *const values[2], const size_t counts[2],
                                size_t rounds, double confidence, struct gsp_contrast *out)
{
    struct rounds scratch = {
        .means = malloc((rounds + 1) * sizeof(double)),
        .count = rounds,
        .confidence = confidence,
    };
    double *pool = malloc((counts[0] + counts[1] + 1) * sizeof(*pool));
    const bool ok = scratch.means && pool && contrast(values, counts, &scratch, pool, out);
    free(scratch.means);
    free(pool);
    return ok;
}
