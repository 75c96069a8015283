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

/* Converts to local time. Rounds down to a second, also before 1970. */
static struct tm local_parts(int64_t unix_ns)
{
    const time_t seconds = (time_t)(unix_ns / GSP_NS_PER_S - (unix_ns % GSP_NS_PER_S < 0));
    struct tm tm = {.tm_mday = 1, .tm_year = 70};
    localtime_r(&seconds, &tm);
    return tm;
}

static char *fitted(char *out, size_t written)
{
    if (written == 0)
        out[0] = '\0';
    return out;
}

char *gsp_fmt_file_time(int64_t unix_ns, char *out, size_t cap)
{
    const struct tm tm = local_parts(unix_ns);
    return fitted(out, strftime(out, cap, "%Y%m%d-%H%M%S", &tm));
}

char *gsp_fmt_time(int64_t unix_ns, char *out, size_t cap)
{
    const struct tm tm = local_parts(unix_ns);
    return fitted(out, strftime(out, cap, "%Y-%m-%d %H:%M:%S %z", &tm));
}

char *gsp_fmt_iso_time(int64_t unix_ns, char *out, size_t cap)
{
    const struct tm tm = local_parts(unix_ns);
    const int64_t rest_ns = unix_ns % GSP_NS_PER_S;
    const int ms = (int)((rest_ns < 0 ? rest_ns + GSP_NS_PER_S : rest_ns) / GSP_NS_PER_MS);
    char day[32];
    char zone[16];
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    strftime(zone, sizeof(zone), "%z", &tm);
    const int n = snprintf(out, cap, "%s.%03d%.3s:%.2s", day, ms, zone, zone + 3);
    return fitted(out, n > 0 && (size_t)n < cap);
}
