/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>

#include "stats/basic.h"
#include "stats/compare.h"
#include "stats/random.h"
#include "tap.h"

#define VALUES_MAX 400UL

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

static struct gsp_stats_comparison compare(const double *a, size_t a_count, const double *b,
                                           size_t b_count)
{
    struct gsp_stats_comparison out = {0};
    const double *const values[2] = {a, b};
    const size_t counts[2] = {a_count, b_count};
    const struct gsp_stats_comparison_opts opts = {
        .rounds = 400, .blocks_max = 100, .confidence = 0.95, .ordered = true};
    tap_check(gsp_stats_compare(values, counts, &opts, &out));
    return out;
}

static double uniform(uint64_t *random)
{
    return ((double)(gsp_random_next(random) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *random)
{
    return sqrt(-2 * log(uniform(random))) * cos(6.283185307179586 * uniform(random));
}

/* An autoregressive series around 1, with the coefficient phi. */
static void simulate(double *values, size_t count, double spread, double phi, uint64_t *random)
{
    double x = normal(random);
    for (size_t i = 0; i < count; i++) {
        x = phi * x + sqrt(1 - phi * phi) * normal(random);
        values[i] = 1 + spread * x;
    }
}

static bool is_significant(const struct gsp_stats_comparison *found)
{
    return found->p < 0.05 && (found->low > 0 || found->high < 0);
}

TAP_TEST(contrast_exact)
{
    const double a[] = {1, 2, 3, 4};
    const double b[] = {11, 12, 13, 14};
    const struct gsp_stats_comparison found = compare(a, 4, b, 4);
    /* 2 of the 70 ways to choose 4 of 8 values. */
    tap_check(found.is_exact && found.is_enough && near(found.p, 2.0 / 70));
    /* The bounds of Student's t are 7.77 and 12.23. */
    tap_check(found.low > 7 && found.low < 8.6 && found.high > 11.4 && found.high < 13);
    tap_check(found.share_low > 2 && found.share_high < 13);
    const struct gsp_stats_comparison same = compare(a, 4, a, 4);
    tap_check(near(same.p, 1) && same.low <= 0 && same.high >= 0);
}

TAP_TEST(too_few_values)
{
    const double a[] = {1, 2, 3};
    const double b[] = {11, 12, 13};
    tap_check(!compare(a, 3, b, 3).is_enough);
    tap_check(!compare(a, 2, b, 2).is_enough);
}

TAP_TEST(constant_values)
{
    double a[50];
    double b[50];
    for (size_t i = 0; i < 50; i++) {
        a[i] = 3;
        b[i] = 3;
    }
    const struct gsp_stats_comparison same = compare(a, 50, b, 50);
    tap_check(same.p > 0.99 && same.low <= 0 && same.high >= 0);
    for (size_t i = 0; i < 50; i++)
        b[i] = 4;
    const struct gsp_stats_comparison other = compare(a, 50, b, 50);
    tap_check(is_significant(&other) && near(other.low, 1) && near(other.high, 1));
    for (size_t i = 0; i < 50; i++)
        a[i] = 0;
    const struct gsp_stats_comparison zero = compare(a, 50, b, 50);
    tap_check(is_significant(&zero) && isnan(zero.share_low) && isnan(zero.share_high));
}

/* The interval is centred on the observed difference, because blocks have equal lengths. */
TAP_TEST(blocks_have_equal_lengths)
{
    uint64_t random = 19;
    double values[300];
    simulate(values, 300, 0.1, 0, &random);
    const struct gsp_stats_comparison found = compare(values, 150, values + 150, 150);
    const double seen = gsp_stats_mean(values + 150, 150) - gsp_stats_mean(values, 150);
    tap_check(found.blocks[0] == 75 || found.blocks[0] < 50);
    tap_check(fabs((found.low + found.high) / 2 - seen) < 0.1 * (found.high - found.low));
}

TAP_TEST(same_input_same_output)
{
    uint64_t random = 3;
    double values[2 * VALUES_MAX];
    simulate(values, 2 * VALUES_MAX, 0.1, 0, &random);
    const struct gsp_stats_comparison one =
        compare(values, VALUES_MAX, values + VALUES_MAX, VALUES_MAX);
    const struct gsp_stats_comparison two =
        compare(values, VALUES_MAX, values + VALUES_MAX, VALUES_MAX);
    tap_check(!(one.low < two.low || one.low > two.low) && !(one.p < two.p || one.p > two.p));
}

struct tally {
    int alarms;  /* false positives */
    int covered; /* intervals that contain the true difference */
    int found;   /* shifts detected */
};

/* Compares pairs of equal runs, and the same pairs with the second run 5 % slower. */
static struct tally tally_of(int pairs, size_t count, double phi, uint64_t *random)
{
    struct tally tally = {0};
    double a[VALUES_MAX];
    double b[VALUES_MAX];
    for (int i = 0; i < pairs; i++) {
        simulate(a, count, 0.1, phi, random);
        simulate(b, count, 0.1, phi, random);
        const struct gsp_stats_comparison equal = compare(a, count, b, count);
        tally.alarms += is_significant(&equal);
        tally.covered += equal.low <= 0 && equal.high >= 0;
        for (size_t k = 0; k < count; k++)
            b[k] *= 1.05;
        const struct gsp_stats_comparison shifted = compare(a, count, b, count);
        tally.found += is_significant(&shifted) && shifted.low > 0;
    }
    return tally;
}

/* Without a difference, false positives and coverage match the confidence. With 100 values, a shift
 * of half a standard deviation is found in most pairs. */
TAP_TEST(level_coverage_and_power)
{
    uint64_t random = 11;
    const struct tally tally = tally_of(400, 100, 0, &random);
    /* 20 alarms and 380 hits expected, with a standard deviation of 4.4. */
    tap_check(tally.alarms >= 4 && tally.alarms <= 36);
    tap_check(tally.covered >= 360);
    tap_check(tally.found >= 320);
}

/* A plain percentile bootstrap of few values gives intervals that are too narrow. */
TAP_TEST(few_values_keep_the_level)
{
    uint64_t random = 12;
    const struct tally tally = tally_of(400, 6, 0, &random);
    tap_check(tally.alarms <= 36 && tally.covered >= 360);
}

/* A test that ignores autocorrelation has 30 % false positives here. */
TAP_TEST(series_keep_the_level)
{
    uint64_t random = 13;
    const struct tally tally = tally_of(200, VALUES_MAX, 0.6, &random);
    tap_check(tally.alarms <= 22 && tally.covered >= 176 && tally.found >= 160);
}

TAP_TEST(autocorrelation_time)
{
    uint64_t random = 14;
    static double values[20000];
    double memory = 0;
    simulate(values, 2000, 1, 0.8, &random);
    /* (1 + phi) / (1 - phi) is 9. */
    tap_check(gsp_stats__autocorrelation_time(values, 2000, &memory) && memory > 5 && memory < 15);
    simulate(values, 20000, 1, 0.8, &random);
    tap_check(gsp_stats__autocorrelation_time(values, 20000, &memory) && memory > 5 && memory < 15);
    simulate(values, 20000, 1, 0.995, &random);
    tap_check(gsp_stats__autocorrelation_time(values, 20000, &memory) && memory > 150);
    for (size_t i = 0; i < 1000; i++)
        values[i] = (double)i;
    tap_check(gsp_stats__autocorrelation_time(values, 1000, &memory) && memory > 100);
    tap_check(gsp_stats__autocorrelation_time(values, 3, &memory) && near(memory, 1));
    const struct gsp_stats_comparison trend = compare(values, 1000, values, 1000);
    tap_check(!trend.is_enough);
}

/* Values from a table of the t distribution. */
TAP_TEST(student)
{
    tap_check(fabs(gsp_stats__t_quantile(0.05, 1) - 12.706) < 0.001);
    tap_check(fabs(gsp_stats__t_quantile(0.05, 10) - 2.2281) < 0.0001);
    tap_check(fabs(gsp_stats__t_quantile(0.01, 3) - 5.8409) < 0.0001);
    tap_check(fabs(gsp_stats__t_quantile(0.05, 1e6) - 1.95997) < 0.0001);
    tap_check(fabs(gsp_stats__t_tail(6, 60) / 1.21e-7 - 1) < 0.05);
    tap_check(gsp_stats__t_tail((double)INFINITY, 5) <= 0 && isnan(gsp_stats__t_tail(1, 0)));
    tap_check(fabs(gsp_stats__normal_cdf(-1.959964) - 0.025) < 1e-6);
}

TAP_TEST(select_by_rank)
{
    uint64_t random = 17;
    double values[101];
    double sorted[101];
    for (int round = 0; round < 50; round++) {
        const size_t count = 1 + (size_t)round * 2;
        for (size_t i = 0; i < count; i++)
            values[i] = sorted[i] = (double)gsp_random_below(&random, 40);
        gsp_stats_sort(sorted, count);
        for (size_t i = 0; i < count; i++)
            tap_check(fabs(gsp_stats__select(values, count, i) - sorted[i]) < 1e-12);
    }
    tap_check(near(gsp_stats__quantile(sorted, 3, 0.5), sorted[1]));
}

TAP_TEST(effect_size)
{
    double a[] = {3, 1, 2};
    double b[] = {6, 5, 4};
    tap_check(near(gsp_stats_cliffs_delta(a, 3, b, 3), 1) &&
              near(gsp_stats_cliffs_delta(b, 3, a, 3), -1));
    double c[] = {1, 2, 3};
    tap_check(fabs(gsp_stats_cliffs_delta(a, 3, c, 3)) < 1e-12);
    tap_check(fabs(gsp_stats_cliffs_delta(a, 0, c, 3)) < 1e-12);
    double d[] = {2, 2};
    double e[] = {2, 3};
    tap_check(near(gsp_stats_cliffs_delta(d, 2, e, 2), 0.5));
}

TAP_TEST(adjusted_p)
{
    double p[] = {0.01, 0.04, 0.03, (double)NAN, 0.005, 0.03};
    tap_check(gsp_stats_adjust_p(p, 6));
    tap_check(near(p[4], 0.025) && near(p[0], 0.025) && near(p[2], 0.0375) && near(p[5], 0.0375));
    tap_check(near(p[1], 0.04) && isnan(p[3]));
    tap_check(gsp_stats_adjust_p(NULL, 0));
    /* Of 2,000 p-values without an effect, almost none remain. */
    static double many[2000];
    uint64_t random = 15;
    for (size_t i = 0; i < 2000; i++)
        many[i] = uniform(&random);
    tap_check(gsp_stats_adjust_p(many, 2000));
    int left = 0;
    for (size_t i = 0; i < 2000; i++)
        left += many[i] < 0.05;
    tap_check(left <= 2);
}

TAP_TEST(warmup)
{
    double values[40];
    uint64_t random = 16;
    simulate(values, 40, 0.05, 0, &random);
    size_t found = 99;
    tap_check(gsp_stats_warmup(values, 40, &found) && found == 0);
    values[0] = 9;
    values[1] = 3;
    values[5] = 9;
    tap_check(gsp_stats_warmup(values, 40, &found) && found == 2);
    tap_check(gsp_stats_warmup(values, 3, &found) && found == 0);
    /* At most half of the values count as warm-up. */
    for (size_t i = 0; i < 40; i++)
        values[i] = i < 30 ? 5 : 1;
    tap_check(gsp_stats_warmup(values, 40, &found) && found <= 20);
}

TAP_TEST(startup)
{
    double values[100];
    uint64_t random = 18;
    simulate(values, 100, 0.01, 0, &random);
    tap_check(gsp_stats_startup(values, 100) < 30);
    for (size_t i = 0; i < 20; i++)
        values[i] = (double)i / 20;
    const size_t found = gsp_stats_startup(values, 100);
    tap_check(found >= 19 && found < 40);
    for (size_t i = 0; i < 100; i++)
        values[i] = 5;
    tap_check(gsp_stats_startup(values, 100) == 0);
    tap_check(gsp_stats_startup(values, 3) == 0 && gsp_stats_startup(NULL, 0) == 0);
}

TAP_MAIN()
