/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wakeup.c -- what it costs to be woken by a timer, and nothing else.
 *
 * Sleeps on an absolute schedule and prints, as JSON, the CPU time a wake-up took and how many
 * came more than a period late: the floor under every sampler at low rates, and what this
 * machine can keep of a schedule at high ones.
 *
 *   wakeup RATE_HZ SECONDS
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define NS_PER_S 1000000000LL

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t mono_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: wakeup RATE_HZ SECONDS\n");
        return 64;
    }
    const double rate_hz = strtod(argv[1], NULL);
    const double seconds = strtod(argv[2], NULL);
    if (!(rate_hz >= 1) || !(rate_hz <= 1e6) || !(seconds > 0) || !(seconds < 3600)) {
        fprintf(stderr, "wakeup: rate 1 to 1e6, seconds up to 3600\n");
        return 64;
    }
    const int64_t period_ns = (int64_t)((double)NS_PER_S / rate_hz);
    const int64_t start_ns = mono_ns();
    const int64_t end_ns = start_ns + (int64_t)(seconds * (double)NS_PER_S);
    const int64_t cpu_before = cpu_ns();
    int64_t count = 0;
    int64_t late = 0;
    for (int64_t next_ns = start_ns + period_ns; next_ns < end_ns; next_ns += period_ns) {
        const struct timespec at = {next_ns / NS_PER_S, (long)(next_ns % NS_PER_S)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
        }
        count++;
        if (mono_ns() > next_ns + period_ns)
            late++;
    }
    const double spent_ms = (double)(cpu_ns() - cpu_before) / 1e6;
    printf("{\"wakeups\": %lld, \"late\": %lld, \"cpu_ms_per_1000\": %.3f}\n", (long long)count,
           (long long)late, count ? spent_ms / (double)count * 1000 : 0.0);
    return 0;
}
