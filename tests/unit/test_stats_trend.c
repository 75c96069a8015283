/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "stats/growth.h"
#include "stats/trend.h"
#include "tap.h"

/* Computed by hand: S = 8 of 10 pairs, Var = 5 * 4 * 15 / 18. */
TAP_TEST(known_values)
{
    const double values[] = {1, 3, 2, 4, 5};
    struct gsp_trend trend;
    tap_check(gsp_stats_trend(NULL, values, GSP_COUNT(values), &trend));
    tap_check(fabs(trend.z - 7 / sqrt(300.0 / 18)) < 1e-12);
    tap_check(fabs(trend.slope - 1) < 1e-12);
}

TAP_TEST(ties_and_falls)
{
    const double flat[] = {2, 2, 2, 2};
    const double falling[] = {9, 7, 5, 3, 1};
    struct gsp_trend trend;
    tap_check(gsp_stats_trend(NULL, flat, GSP_COUNT(flat), &trend));
    tap_check(trend.z == 0 && trend.slope == 0);
    tap_check(gsp_stats_trend(NULL, falling, GSP_COUNT(falling), &trend));
    tap_check(trend.z < -2 && fabs(trend.slope + 2) < 1e-12);
    tap_check(gsp_stats_trend(NULL, falling, 2, &trend));
    tap_check(trend.z == 0 && trend.slope == 0);
}

/* An outlier changes neither result by much. */
TAP_TEST(one_outlier)
{
    double values[20];
    struct gsp_trend trend;
    for (size_t i = 0; i < GSP_COUNT(values); i++)
        values[i] = (double)i;
    values[3] = 1e9;
    tap_check(gsp_stats_trend(NULL, values, GSP_COUNT(values), &trend));
    tap_check(trend.z > 4 && fabs(trend.slope - 1) < 0.01);
}

enum { VALUES = 400 };

static struct gsp_growth growth_of(double (*memory)(size_t i))
{
    double t[VALUES];
    double v[VALUES];
    for (size_t i = 0; i < VALUES; i++) {
        t[i] = (double)i * 0.5;
        v[i] = memory(i);
    }
    return gsp_stats_growth(t, v, VALUES);
}

static double noise(size_t i)
{
    return (double)((i * 2654435761U) % 1000) * 100;
}

static double leak(size_t i)
{
    return 1e8 + (double)i * 100000 + noise(i);
}

static double warm_up(size_t i)
{
    return (i < 60 ? 1e8 + (double)i * 1e6 : 1.6e8) + noise(i);
}

static double one_step(size_t i)
{
    return (i < 200 ? 1e8 : 2e8) + noise(i);
}

static double saw(size_t i)
{
    return 1e8 + (double)(i % 20) * 1e6 + noise(i);
}

static double cache(size_t i)
{
    return 2e8 - 1e8 * exp(-(double)i / 40) + noise(i);
}

TAP_TEST(only_a_leak_is_growth)
{
    const struct gsp_growth found = growth_of(leak);
    tap_check(found.is_known && found.is_growing);
    tap_check(fabs(found.slope / 200000 - 1) < 0.05);
    tap_check(!growth_of(warm_up).is_growing);
    tap_check(!growth_of(one_step).is_growing);
    tap_check(!growth_of(saw).is_growing);
    tap_check(!growth_of(cache).is_growing);
    tap_check(!growth_of(noise).is_growing);
    const double two[] = {1, 2};
    tap_check(!gsp_stats_growth(two, two, 2).is_known);
    tap_check(!gsp_stats_growth(two, two, 0).is_known);
}

TAP_MAIN()
