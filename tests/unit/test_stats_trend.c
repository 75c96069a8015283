/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "stats/trend.h"
#include "tap.h"

/* Values whose outcome was worked out by hand: S = 8 of 10 pairs, Var = 5 * 4 * 15 / 18. */
TAP_TEST(known_values)
{
    const double values[] = {1, 3, 2, 4, 5};
    struct gsp_trend trend;
    tap_check(gsp_stats_trend(values, GSP_COUNT(values), &trend));
    tap_check(fabs(trend.z - 7 / sqrt(300.0 / 18)) < 1e-12);
    tap_check(fabs(trend.slope - 1) < 1e-12);
}

TAP_TEST(ties_and_falls)
{
    const double flat[] = {2, 2, 2, 2};
    const double falling[] = {9, 7, 5, 3, 1};
    struct gsp_trend trend;
    tap_check(gsp_stats_trend(flat, GSP_COUNT(flat), &trend));
    tap_check(trend.z == 0 && trend.slope == 0);
    tap_check(gsp_stats_trend(falling, GSP_COUNT(falling), &trend));
    tap_check(trend.z < -2 && fabs(trend.slope + 2) < 1e-12);
    tap_check(gsp_stats_trend(falling, 2, &trend));
    tap_check(trend.z == 0 && trend.slope == 0);
}

/* One value that is far off changes neither by much. */
TAP_TEST(one_wild_value)
{
    double values[20];
    struct gsp_trend trend;
    for (size_t i = 0; i < GSP_COUNT(values); i++)
        values[i] = (double)i;
    values[3] = 1e9;
    tap_check(gsp_stats_trend(values, GSP_COUNT(values), &trend));
    tap_check(trend.z > 4 && fabs(trend.slope - 1) < 0.01);
}

TAP_MAIN()
