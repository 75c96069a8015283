/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <stdio.h>
#include <time.h>

#include "base/attr.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * GSP_NS_PER_S + ts.tv_nsec;
}

int64_t gsp_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t gsp_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t gsp_cputime_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t gsp_thread_cputime_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

char *gsp_fmt_duration(int64_t ns, char *out, size_t cap)
{
    static const struct {
        double scale;
        const char *unit;
    } UNITS[] = {{3600e9, "h"}, {60e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    double v = (double)ns;
    size_t i = 0;
    while (i + 1 < GSP_COUNT(UNITS) && v < UNITS[i].scale && v > -UNITS[i].scale)
        i++;
    v /= UNITS[i].scale;
    double mag = v < 0 ? -v : v;
    int digits = mag >= 100 || i + 1 == GSP_COUNT(UNITS) ? 0 : mag >= 10 ? 1 : 2;
    snprintf(out, cap, "%.*f %s", digits, v, UNITS[i].unit);
    return out;
}
