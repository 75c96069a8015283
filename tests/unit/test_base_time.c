/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "base/time.h"
#include "tap.h"

static void use_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
}

TAP_TEST(local_times_have_the_offset_of_their_zone)
{
    char out[64];
    use_zone("EST5");
    tap_eq_str(gsp_fmt_iso_time(0, out, sizeof(out)), "1969-12-31T19:00:00.000-05:00");
    use_zone("IST-5:30");
    tap_eq_str(gsp_fmt_iso_time(1700000000123456789, out, sizeof(out)),
               "2023-11-15T03:43:20.123+05:30");
    tap_eq_str(gsp_fmt_file_time(1700000000 * GSP_NS_PER_S, out, sizeof(out)), "20231115-034320");
    tap_eq_str(gsp_fmt_time(1700000000 * GSP_NS_PER_S, out, sizeof(out)),
               "2023-11-15 03:43:20 +0530");
}

TAP_TEST(a_time_before_1970_rounds_down)
{
    char out[64];
    use_zone("UTC0");
    tap_eq_str(gsp_fmt_iso_time(-1 * GSP_NS_PER_MS, out, sizeof(out)),
               "1969-12-31T23:59:59.999+00:00");
}

TAP_TEST(a_time_that_does_not_fit_is_empty)
{
    char out[4];
    tap_eq_str(gsp_fmt_file_time(0, out, sizeof(out)), "");
    tap_eq_str(gsp_fmt_iso_time(0, out, sizeof(out)), "");
}

TAP_TEST(durations_have_three_digits)
{
    char out[32];
    tap_eq_str(gsp_fmt_duration(1500 * GSP_NS_PER_MS, out, sizeof(out)), "1.50 s");
    tap_eq_str(gsp_fmt_duration(-12 * GSP_NS_PER_MS, out, sizeof(out)), "-12.0 ms");
    tap_eq_str(gsp_fmt_duration(7, out, sizeof(out)), "7 ns");
}

TAP_MAIN()
