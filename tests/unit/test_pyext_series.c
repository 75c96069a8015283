/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "pyext/memwatch.h"
#include "pyext/series.h"
#include "tap.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

TAP_TEST(figures)
{
    struct gsp_metric_series series = {0};
    const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    for (size_t i = 0; i < 8; i++)
        gsp_pyext__series_add(&series, values[i], (int64_t)i * 10, (int64_t)i * 10 + 5);
    tap_check(series.count == 8 && near(series.sum, 40) && near(series.mean, 5));
    tap_check(near(gsp_pyext__series_std(&series), sqrt(32.0 / 7)));
    tap_check(near(series.min, 2) && near(series.max, 9) && near(series.last, 9));
    tap_check(series.first_ns == 0 && series.last_ns == 75 && series.kept_count == 8);
    gsp_pyext__series_clear(&series);
    tap_check(series.count == 0 && !series.kept);
}

/* The spread of large numbers that differ only in their last digits. */
TAP_TEST(spread_is_exact)
{
    struct gsp_metric_series series = {0};
    for (int i = 0; i < 1000; i++)
        gsp_pyext__series_add(&series, 1e9 + i % 2, i, i);
    tap_check(fabs(gsp_pyext__series_std(&series) - 0.5002501876563869) < 1e-6);
    gsp_pyext__series_clear(&series);
}

TAP_TEST(nonfinite_is_not_in_the_statistics)
{
    struct gsp_metric_series series = {0};
    gsp_pyext__series_add(&series, (double)NAN, 1, 1);
    tap_check(series.count == 0 && series.nonfinite == 1 && isnan(series.last));
    gsp_pyext__series_add(&series, -3, 2, 2);
    gsp_pyext__series_add(&series, (double)INFINITY, 3, 3);
    tap_check(series.count == 1 && series.nonfinite == 2 && series.kept_count == 3);
    tap_check(near(series.min, -3) && near(series.max, -3) && near(series.mean, -3));
    gsp_pyext__series_clear(&series);
}

/* Of 1,000,000 values in order, the kept ones have the mean of all. */
TAP_TEST(choice_is_fair)
{
    struct gsp_metric_series series = {0};
    for (int i = 0; i < 1000000; i++)
        gsp_pyext__series_add(&series, i, i, i);
    tap_check(series.count == 1000000 && series.kept_count == GSP_SERIES_KEPT && series.lost == 0);
    double sum = 0;
    for (size_t i = 0; i < series.kept_count; i++)
        sum += series.kept[i].value;
    /* Standard error of such a choice: 1e6 / sqrt(12 * 1e5), about 913. */
    tap_check(fabs(sum / GSP_SERIES_KEPT - 499999.5) < 6 * 913);
    gsp_pyext__series_clear(&series);
}

/* -------------------------------------------------------------------------------- memory */

static void wait_for_samples(struct gsp_memwatch *watch, size_t wanted)
{
    size_t count = 0;
    const int64_t end_ns = gsp_now_ns() + 15 * GSP_NS_PER_S;
    while (count < wanted && gsp_now_ns() < end_ns) {
        struct gsp_memwatch_sample peak;
        free(gsp_pyext__memwatch_samples(watch, &count, &peak));
        usleep(1000);
    }
    tap_check(count >= wanted);
}

TAP_TEST(memory_is_sampled)
{
    struct gsp_memwatch *watch = gsp_pyext__memwatch_new(GSP_NS_PER_MS, NULL);
    tap_check(watch && gsp_pyext__memwatch_start(watch, true));
    wait_for_samples(watch, 3);
    tap_check(gsp_pyext__memwatch_is_on(watch));
    const size_t size = (size_t)64 << 20;
    char *block = malloc(size);
    for (size_t i = 0; block && i < size; i += 1024)
        ((volatile char *)block)[i] = 1;
    gsp_pyext__memwatch_stop(watch);
    free(block);
    size_t count = 0;
    struct gsp_memwatch_sample peak;
    struct gsp_memwatch_sample *samples = gsp_pyext__memwatch_samples(watch, &count, &peak);
    tap_check(samples && count >= 4 && !gsp_pyext__memwatch_is_on(watch));
    tap_check(samples && peak.resident_bytes >= samples[0].resident_bytes + (int64_t)size);
    tap_check(peak.reserved_bytes > 0 && peak.device_bytes == -1);
    for (size_t i = 1; samples && i < count; i++)
        tap_check(samples[i].at_ns >= samples[i - 1].at_ns);
    free(samples);
    gsp_pyext__memwatch_free(watch);
    gsp_pyext__memwatch_free(NULL);
}

static int device_calls;

static int fake_info(size_t *free_bytes, size_t *total_bytes)
{
    device_calls++;
    *total_bytes = 1000;
    *free_bytes = 400;
    return 0;
}

TAP_TEST(device_and_no_thread)
{
    const struct gsp_memwatch_device device = {.get_info = fake_info};
    struct gsp_memwatch *watch = gsp_pyext__memwatch_new(GSP_NS_PER_S, &device);
    tap_check(watch && gsp_pyext__memwatch_start(watch, false));
    gsp_pyext__memwatch_stop(watch);
    gsp_pyext__memwatch_stop(watch);
    size_t count = 0;
    struct gsp_memwatch_sample peak;
    free(gsp_pyext__memwatch_samples(watch, &count, &peak));
    tap_check(count == 2 && device_calls == 2 && peak.device_bytes == 600);
    gsp_pyext__memwatch_free(watch);
}

/* A child has no thread to wait for, and can start one. */
TAP_TEST(memwatch_works_in_a_child)
{
    if (TAP_IS_SANITIZED)
        tap_skip("needs a build without a sanitizer: a thread allocates while its process forks");
    struct gsp_memwatch *watch = gsp_pyext__memwatch_new(GSP_NS_PER_MS, NULL);
    tap_check(watch && gsp_pyext__memwatch_start(watch, true));
    const pid_t child = fork();
    if (child == 0) {
        const bool was_on = gsp_pyext__memwatch_is_on(watch);
        const bool started = gsp_pyext__memwatch_start(watch, true);
        gsp_pyext__memwatch_free(watch);
        _exit(!was_on && started ? 0 : 1);
    }
    int status = -1;
    tap_check(waitpid(child, &status, 0) == child && status == 0);
    tap_check(gsp_pyext__memwatch_is_on(watch));
    gsp_pyext__memwatch_free(watch);
}

TAP_MAIN()
