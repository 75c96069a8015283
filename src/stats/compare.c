/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/compare.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stats/basic.h"
#include "stats/random.h"

/* Up to this number of permutations, the test tries all of them. */
#define WAYS_MAX     20000
/* Length of a block in autocorrelation times, so that blocks are almost uncorrelated. */
#define BLOCK_FACTOR 3.0
#define BLOCKS_MIN   2U

/* Both sides as block means. */
struct sides {
    double *values[2];
    size_t counts[2];
    double mean[2];
    double error2; /* squared standard error of the difference */
    double freedom;
};

struct rounds {
    double *differences; /* one per round */
    double *shares;
    size_t count;
    double confidence;
};

/* State of the permutation test. */
struct permutation {
    double *pool; /* the values of both sides */
    size_t count;
    size_t of_first; /* number of values of the first side */
    double sum;
    double square_sum;
    double limit; /* the observed statistic, reduced by a rounding error */
};

/* Returns the squared studentized difference, if the values of the first side have these sums. */
static double studentized(const struct permutation *test, double sum, double square_sum)
{
    const double n = (double)test->of_first;
    const double m = (double)(test->count - test->of_first);
    const double first = sum / n;
    const double second = (test->sum - sum) / m;
    const double spread_a = fmax(square_sum - n * first * first, 0);
    const double spread_b = fmax(test->square_sum - square_sum - m * second * second, 0);
    const double error2 = spread_a / (n - 1) / n + spread_b / (m - 1) / m;
    const double difference2 = (second - first) * (second - first);
    /* Differences below the rounding error of the sums count as zero. */
    const double least = 1e-12 * test->square_sum / (n + m);
    if (difference2 <= least)
        return 0;
    return difference2 / fmax(error2, least);
}

static double drawn_mean(const double *values, size_t count, uint64_t *random)
{
    double sum = 0;
    /* Two draws per random number, because this loop takes most of the time. */
    for (size_t i = 0; i + 1 < count; i += 2) {
        const uint64_t bits = gsp_random_next(random);
        sum += values[(size_t)(((bits >> 32) * count) >> 32)];
        sum += values[(size_t)(((bits & UINT32_MAX) * count) >> 32)];
    }
    if (count % 2 == 1)
        sum += values[gsp_random_below(random, count)];
    return sum / (double)count;
}

static void bootstrap(const struct sides *sides, const struct rounds *rounds, uint64_t *random)
{
    const double base = fabs(sides->mean[0]);
    for (size_t i = 0; i < rounds->count; i++) {
        const double first = drawn_mean(sides->values[0], sides->counts[0], random);
        const double second = drawn_mean(sides->values[1], sides->counts[1], random);
        rounds->differences[i] = second - first;
        /* If a drawn mean is near 0, divide by the observed mean instead. */
        const bool is_safe = fabs(first) > base / 2 && first * sides->mean[0] > 0;
        rounds->shares[i] = (second - first) / (is_safe ? fabs(first) : base);
    }
}

/* Returns the number of ways to choose k of n, or WAYS_MAX + 1 if it exceeds WAYS_MAX. */
static size_t count_ways(size_t n, size_t k)
{
    double product = 1;
    for (size_t i = 1; i <= k && product <= WAYS_MAX; i++)
        product = product * (double)(n - k + i) / (double)i;
    return product > WAYS_MAX ? WAYS_MAX + 1 : (size_t)(product + 0.5);
}

/* Computes p from every choice of values for the first side. Returns false if memory runs out. */
static bool try_all_ways(const struct permutation *test, double *p)
{
    size_t *chosen = malloc((test->of_first + 1) * sizeof(*chosen));
    if (!chosen)
        return false;
    const size_t k = test->of_first;
    size_t hits = 0;
    size_t tried = 0;
    for (size_t i = 0; i < k; i++)
        chosen[i] = i;
    size_t moving = k;
    while (moving > 0) {
        double sum = 0;
        double square_sum = 0;
        for (size_t i = 0; i < k; i++) {
            const double value = test->pool[chosen[i]];
            sum += value;
            square_sum += value * value;
        }
        tried++;
        hits += studentized(test, sum, square_sum) >= test->limit ? 1 : 0;
        moving = k;
        while (moving > 0 && chosen[moving - 1] == test->count - k + moving - 1)
            moving--;
        if (moving > 0) {
            chosen[moving - 1]++;
            for (size_t i = moving; i < k; i++)
                chosen[i] = chosen[i - 1] + 1;
        }
    }
    free(chosen);
    *p = (double)hits / (double)tried;
    return true;
}

/* Estimates p from random choices. */
static double try_random_ways(const struct permutation *test, size_t rounds, uint64_t *random)
{
    /* When p is about 0.1, further rounds would not change the conclusion. */
    const size_t enough = rounds / 10 + 1;
    size_t hits = 0;
    size_t tried = 0;
    for (; tried < rounds && hits < enough; tried++) {
        double sum = 0;
        double square_sum = 0;
        for (size_t i = 0; i < test->of_first; i++) {
            const size_t other = i + gsp_random_below(random, test->count - i);
            const double value = test->pool[other];
            test->pool[other] = test->pool[i];
            test->pool[i] = value;
            sum += value;
            square_sum += value * value;
        }
        hits += studentized(test, sum, square_sum) >= test->limit ? 1 : 0;
    }
    /* The observed choice is one of the permutations, so p is never 0. */
    return (double)(hits + 1) / (double)(tried + 1);
}

/* Replaces a p below the resolution of the rounds by that of Student's t test. Small differences
 * matter when thousands of p-values are adjusted together. */
static double refine_small_p(double p, size_t rounds, double t2, double freedom)
{
    if (p * (double)(rounds + 1) > 1.5)
        return p;
    return fmin(p, fmax(gsp_stats__t_tail(sqrt(t2), freedom), 1e-12));
}

static void measure(struct sides *sides)
{
    double parts[2];
    double squares = 0;
    for (int i = 0; i < 2; i++) {
        const double count = (double)sides->counts[i];
        sides->mean[i] = gsp_stats_mean(sides->values[i], sides->counts[i]);
        parts[i] = gsp_stats__variance(sides->values[i], sides->counts[i]) / count;
        squares += parts[i] * parts[i] / (count - 1);
    }
    sides->error2 = parts[0] + parts[1];
    sides->freedom = squares > 0 ? sides->error2 * sides->error2 / squares : 1;
}

/* Computes the confidence interval from the drawn differences. A bootstrap of few values
 * underestimates their variance, so the interval is widened according to Student's t. */
static void find_bounds(const struct sides *sides, const struct rounds *rounds,
                        struct gsp_stats_comparison *out)
{
    double drawn2 = 0;
    for (int i = 0; i < 2; i++) {
        const double count = (double)sides->counts[i];
        drawn2 +=
            gsp_stats__variance(sides->values[i], sides->counts[i]) * (count - 1) / count / count;
    }
    const double tail = 1 - rounds->confidence;
    const double widen = drawn2 > 0 ? sqrt(sides->error2 / drawn2) : 1;
    const double share =
        gsp_stats__normal_cdf(-widen * gsp_stats__t_quantile(tail, sides->freedom));
    const size_t last = rounds->count - 1;
    const size_t first = (size_t)(share * (double)last);
    out->low = gsp_stats__select(rounds->differences, rounds->count, first);
    out->high = gsp_stats__select(rounds->differences, rounds->count, last - first);
    out->share_low = gsp_stats__select(rounds->shares, rounds->count, first);
    out->share_high = gsp_stats__select(rounds->shares, rounds->count, last - first);
    if (sides->mean[0] == 0)
        out->share_low = out->share_high = (double)NAN;
}

/* pool has space for the values of both sides. */
static bool compare_sides(struct sides *sides, const struct rounds *rounds, double *pool,
                          struct gsp_stats_comparison *out)
{
    uint64_t random = 1;
    measure(sides);
    bootstrap(sides, rounds, &random);
    find_bounds(sides, rounds, out);
    const size_t total = sides->counts[0] + sides->counts[1];
    memcpy(pool, sides->values[0], sides->counts[0] * sizeof(*pool));
    memcpy(pool + sides->counts[0], sides->values[1], sides->counts[1] * sizeof(*pool));
    /* Subtract the mean, so that the squares lose no precision. */
    const double middle = gsp_stats_mean(pool, total);
    struct permutation test = {.pool = pool, .count = total, .of_first = sides->counts[0]};
    double first[2] = {0, 0};
    for (size_t i = 0; i < total; i++) {
        pool[i] -= middle;
        test.sum += pool[i];
        test.square_sum += pool[i] * pool[i];
        if (i + 1 == test.of_first) {
            first[0] = test.sum;
            first[1] = test.square_sum;
        }
    }
    const double seen = studentized(&test, first[0], first[1]);
    /* Sums in a different order differ in their last digits. */
    test.limit = seen * (1 - 1e-9);
    const size_t all = count_ways(test.count, test.of_first);
    out->is_enough = all >= 40;
    out->is_exact = all <= WAYS_MAX;
    if (out->is_exact)
        return try_all_ways(&test, &out->p);
    out->p = refine_small_p(try_random_ways(&test, rounds->count, &random), rounds->count, seen,
                            sides->freedom);
    return true;
}

/* Chooses the number of blocks per side. Two runs of one program have about the same
 * autocorrelation time, and each estimate is uncertain, so the larger one applies to both. */
static bool count_blocks(const double *const values[2], const size_t counts[2],
                         const struct gsp_stats_comparison_opts *opts, size_t blocks[2])
{
    double memory = 1;
    for (int i = 0; i < 2 && opts->ordered; i++) {
        double found = 1;
        if (!gsp_stats__autocorrelation_time(values[i], counts[i], &found))
            return false;
        memory = fmax(memory, found);
    }
    for (int i = 0; i < 2; i++) {
        /* All blocks have the same number of values: 50 values make 25 blocks, not 40. */
        size_t size = memory > 1 ? (size_t)ceil(BLOCK_FACTOR * memory) : 1;
        if (opts->blocks_max > 0 && counts[i] > size * opts->blocks_max)
            size = (counts[i] + opts->blocks_max - 1) / opts->blocks_max;
        blocks[i] = counts[i] / size;
    }
    return true;
}

bool gsp_stats_compare(const double *const values[2], const size_t counts[2],
                       const struct gsp_stats_comparison_opts *opts,
                       struct gsp_stats_comparison *out)
{
    *out = (struct gsp_stats_comparison){.low = (double)NAN,
                                         .high = (double)NAN,
                                         .share_low = (double)NAN,
                                         .share_high = (double)NAN,
                                         .p = (double)NAN};
    if (!count_blocks(values, counts, opts, out->blocks))
        return false;
    if (out->blocks[0] < BLOCKS_MIN || out->blocks[1] < BLOCKS_MIN)
        return true;
    const size_t total = out->blocks[0] + out->blocks[1];
    double *memory = malloc((2 * total + 2 * opts->rounds + 1) * sizeof(*memory));
    if (!memory)
        return false;
    struct sides sides = {.values = {memory, memory + out->blocks[0]},
                          .counts = {out->blocks[0], out->blocks[1]}};
    for (int i = 0; i < 2; i++)
        gsp_stats__block_means(values[i], counts[i], sides.values[i], sides.counts[i]);
    const struct rounds rounds = {.differences = memory + 2 * total,
                                  .shares = memory + 2 * total + opts->rounds,
                                  .count = opts->rounds,
                                  .confidence = opts->confidence};
    const bool ok = compare_sides(&sides, &rounds, memory + total, out);
    free(memory);
    return ok;
}
