/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/contrast.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stats/basic.h"
#include "stats/random.h"

/* So many ways of dealing values out are tried one by one. */
#define WAYS_MAX     20000
/* A block has so many times the values that hang together: what is left between blocks is small. */
#define BLOCK_FACTOR 3.0
#define BLOCKS_MIN   2U

/* Both sides, as blocks. */
struct sides {
    double *values[2];
    size_t counts[2];
    double mean[2];
    double error2; /* squared standard error of the difference */
    double freedom;
};

struct rounds {
    double *differences; /* a number for each */
    double *shares;
    size_t count;
    double confidence;
};

struct deal {
    double *pool; /* the values of both */
    size_t count;
    size_t of_first; /* how many belong to the first */
    double sum;
    double square_sum;
    double limit; /* what was seen: from here on it counts */
};

/* The difference in units of its own error, squared; for a choice of values for the first side. */
static double studentized(const struct deal *deal, double sum, double square_sum)
{
    const double n = (double)deal->of_first;
    const double m = (double)(deal->count - deal->of_first);
    const double first = sum / n;
    const double second = (deal->sum - sum) / m;
    const double spread_a = fmax(square_sum - n * first * first, 0);
    const double spread_b = fmax(deal->square_sum - square_sum - m * second * second, 0);
    const double error2 = spread_a / (n - 1) / n + spread_b / (m - 1) / m;
    const double difference2 = (second - first) * (second - first);
    /* Sums of squares are exact to some digits of the whole: less than that is none. */
    const double least = 1e-12 * deal->square_sum / (n + m);
    if (difference2 <= least)
        return 0;
    return difference2 / fmax(error2, least);
}

static double drawn_mean(const double *values, size_t count, uint64_t *random)
{
    double sum = 0;
    /* Two draws of each number: this loop is where the time goes. */
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
        /* Of values on both sides of 0 a drawn mean may be near it: the seen one is the measure. */
        const bool is_safe = fabs(first) > base / 2 && first * sides->mean[0] > 0;
        rounds->shares[i] = (second - first) / (is_safe ? fabs(first) : base);
    }
}

/* How many ways there are to choose k of n; WAYS_MAX + 1 for more than that. */
static size_t ways(size_t n, size_t k)
{
    double product = 1;
    for (size_t i = 1; i <= k && product <= WAYS_MAX; i++)
        product = product * (double)(n - k + i) / (double)i;
    return product > WAYS_MAX ? WAYS_MAX + 1 : (size_t)(product + 0.5);
}

/* Every choice of places for the first one's values, in order; p of all of them. */
static bool all_ways(const struct deal *deal, double *p)
{
    size_t *places = malloc((deal->of_first + 1) * sizeof(*places));
    if (!places)
        return false;
    const size_t k = deal->of_first;
    size_t hits = 0;
    size_t tried = 0;
    for (size_t i = 0; i < k; i++)
        places[i] = i;
    size_t moving = k;
    while (moving > 0) {
        double sum = 0;
        double square_sum = 0;
        for (size_t i = 0; i < k; i++) {
            const double value = deal->pool[places[i]];
            sum += value;
            square_sum += value * value;
        }
        tried++;
        hits += studentized(deal, sum, square_sum) >= deal->limit ? 1 : 0;
        moving = k;
        while (moving > 0 && places[moving - 1] == deal->count - k + moving - 1)
            moving--;
        if (moving > 0) {
            places[moving - 1]++;
            for (size_t i = moving; i < k; i++)
                places[i] = places[i - 1] + 1;
        }
    }
    free(places);
    *p = (double)hits / (double)tried;
    return true;
}

static double some_ways(const struct deal *deal, size_t rounds, uint64_t *random)
{
    /* Where chance does it in one of ten rounds, more rounds would not change what is said. */
    const size_t enough = rounds / 10 + 1;
    size_t hits = 0;
    size_t tried = 0;
    for (; tried < rounds && hits < enough; tried++) {
        double sum = 0;
        double square_sum = 0;
        for (size_t i = 0; i < deal->of_first; i++) {
            const size_t other = i + gsp_random_below(random, deal->count - i);
            const double value = deal->pool[other];
            deal->pool[other] = deal->pool[i];
            deal->pool[i] = value;
            sum += value;
            square_sum += value * value;
        }
        hits += studentized(deal, sum, square_sum) >= deal->limit ? 1 : 0;
    }
    /* What was seen is one of the ways, so p is never 0. */
    return (double)(hits + 1) / (double)(tried + 1);
}

/* The rounds cannot tell small p apart, which matters among thousands of them: from there on it is
 * Student's t of the blocks. */
static double small_p(double p, size_t rounds, double t2, double freedom)
{
    if (p * (double)(rounds + 1) > 1.5)
        return p;
    return fmin(p, fmax(gsp_stats_t_tail(sqrt(t2), freedom), 1e-12));
}

static void measure(struct sides *sides)
{
    double parts[2];
    double squares = 0;
    for (int i = 0; i < 2; i++) {
        const double count = (double)sides->counts[i];
        sides->mean[i] = gsp_stats_mean(sides->values[i], sides->counts[i]);
        parts[i] = gsp_stats_variance(sides->values[i], sides->counts[i]) / count;
        squares += parts[i] * parts[i] / (count - 1);
    }
    sides->error2 = parts[0] + parts[1];
    sides->freedom = squares > 0 ? sides->error2 * sides->error2 / squares : 1;
}

/* Bounds of the drawn differences.  Drawing from few values shows too little of their spread, so
 * the bounds lie farther out, by as much as Student's t asks for. */
static void bounds(const struct sides *sides, const struct rounds *rounds, struct gsp_contrast *out)
{
    double drawn2 = 0;
    for (int i = 0; i < 2; i++) {
        const double count = (double)sides->counts[i];
        drawn2 +=
            gsp_stats_variance(sides->values[i], sides->counts[i]) * (count - 1) / count / count;
    }
    const double tail = 1 - rounds->confidence;
    const double widen = drawn2 > 0 ? sqrt(sides->error2 / drawn2) : 1;
    const double share = gsp_stats_normal(-widen * gsp_stats_t_of(tail, sides->freedom));
    const size_t last = rounds->count - 1;
    const size_t first = (size_t)(share * (double)last);
    out->low = gsp_stats_select(rounds->differences, rounds->count, first);
    out->high = gsp_stats_select(rounds->differences, rounds->count, last - first);
    out->share_low = gsp_stats_select(rounds->shares, rounds->count, first);
    out->share_high = gsp_stats_select(rounds->shares, rounds->count, last - first);
    if (sides->mean[0] == 0)
        out->share_low = out->share_high = (double)NAN;
}

/* pool has room for the values of both sides. */
static bool contrast(struct sides *sides, const struct rounds *rounds, double *pool,
                     struct gsp_contrast *out)
{
    uint64_t random = 1;
    measure(sides);
    bootstrap(sides, rounds, &random);
    bounds(sides, rounds, out);
    const size_t total = sides->counts[0] + sides->counts[1];
    memcpy(pool, sides->values[0], sides->counts[0] * sizeof(*pool));
    memcpy(pool + sides->counts[0], sides->values[1], sides->counts[1] * sizeof(*pool));
    /* About the middle of all, so that squares keep their digits. */
    const double middle = gsp_stats_mean(pool, total);
    struct deal deal = {.pool = pool, .count = total, .of_first = sides->counts[0]};
    double first[2] = {0, 0};
    for (size_t i = 0; i < total; i++) {
        pool[i] -= middle;
        deal.sum += pool[i];
        deal.square_sum += pool[i] * pool[i];
        if (i + 1 == deal.of_first) {
            first[0] = deal.sum;
            first[1] = deal.square_sum;
        }
    }
    const double seen = studentized(&deal, first[0], first[1]);
    /* Sums in another order differ in their last digits. */
    deal.limit = seen * (1 - 1e-9);
    const size_t all = ways(deal.count, deal.of_first);
    out->is_enough = all >= 40;
    out->is_exact = all <= WAYS_MAX;
    if (out->is_exact)
        return all_ways(&deal, &out->p);
    out->p = small_p(some_ways(&deal, rounds->count, &random), rounds->count, seen, sides->freedom);
    return true;
}

/* How many blocks each side is taken in.  Two runs of one program hang together alike, and a
 * single one's figure is uncertain: the larger counts. */
static bool count_blocks(const double *const values[2], const size_t counts[2],
                         const struct gsp_contrast_opts *opts, size_t blocks[2])
{
    double memory = 1;
    for (int i = 0; i < 2 && opts->ordered; i++) {
        double found = 1;
        if (!gsp_stats_memory(values[i], counts[i], &found))
            return false;
        memory = fmax(memory, found);
    }
    for (int i = 0; i < 2; i++) {
        /* Whole numbers of values, so that blocks are alike: 50 values make 25 blocks, not 40. */
        size_t size = memory > 1 ? (size_t)ceil(BLOCK_FACTOR * memory) : 1;
        if (opts->blocks_max > 0 && counts[i] > size * opts->blocks_max)
            size = (counts[i] + opts->blocks_max - 1) / opts->blocks_max;
        blocks[i] = counts[i] / size;
    }
    return true;
}

bool gsp_stats_contrast(const double *const values[2], const size_t counts[2],
                        const struct gsp_contrast_opts *opts, struct gsp_contrast *out)
{
    *out = (struct gsp_contrast){.low = (double)NAN,
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
        gsp_stats_blocks(values[i], counts[i], sides.values[i], sides.counts[i]);
    const struct rounds rounds = {.differences = memory + 2 * total,
                                  .shares = memory + 2 * total + opts->rounds,
                                  .count = opts->rounds,
                                  .confidence = opts->confidence};
    const bool ok = contrast(&sides, &rounds, memory + total, out);
    free(memory);
    return ok;
}
