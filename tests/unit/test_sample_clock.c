/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "base/time.h"
#include "sample/clock.h"
#include "tap.h"

static volatile sig_atomic_t stop;

static void busy(int64_t ns)
{
    int64_t until = gsp_now_ns() + ns;
    while (gsp_now_ns() < until) {
    }
}

TAP_TEST(ticks_never_come_early)
{
    struct gsp_tick_clock clock;
    int64_t start = gsp_now_ns();
    gsp_sample__clock_start(&clock, GSP_NS_PER_MS, false, start);
    for (int i = 0; i < 20; i++) {
        uint64_t missed;
        int64_t now = gsp_sample__clock_wait(&clock, &stop, &missed);
        tap_check(now >= start + clock.slot * GSP_NS_PER_MS);
    }
}

TAP_TEST(no_burst_after_a_delay)
{
    struct gsp_tick_clock clock;
    gsp_sample__clock_start(&clock, GSP_NS_PER_MS, false, gsp_now_ns());
    uint64_t missed;
    uint64_t lost = 0;
    tap_check(gsp_sample__clock_wait(&clock, &stop, &missed) > 0);
    int64_t slot = clock.slot;
    busy(20 * GSP_NS_PER_MS);
    tap_check(gsp_sample__clock_wait(&clock, &stop, &missed) > 0);
    lost += missed;
    tap_check(missed >= 18);
    /* Every slot is either a tick or counted as missed. */
    tap_eq_int(clock.slot - slot, (int64_t)lost + 1);
    int64_t before = gsp_now_ns();
    for (int i = 0; i < 5; i++)
        tap_check(gsp_sample__clock_wait(&clock, &stop, &missed) > 0);
    tap_check(gsp_now_ns() - before >= 4 * GSP_NS_PER_MS);
}

TAP_TEST(jitter_stays_in_its_slot)
{
    struct gsp_tick_clock clock;
    int64_t start = gsp_now_ns();
    gsp_sample__clock_start(&clock, 2 * GSP_NS_PER_MS, true, start);
    int64_t lo = INT64_MAX;
    int64_t hi = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t missed;
        int64_t now = gsp_sample__clock_wait(&clock, &stop, &missed);
        int64_t at = now - start - clock.slot * 2 * GSP_NS_PER_MS;
        tap_check(at >= 0);
        lo = at < lo ? at : lo;
        hi = at > hi ? at : hi;
    }
    tap_check(hi - lo > GSP_NS_PER_MS / 2);
}

TAP_TEST(stop_ends_the_wait)
{
    struct gsp_tick_clock clock;
    gsp_sample__clock_start(&clock, 100 * GSP_NS_PER_S, false, gsp_now_ns());
    uint64_t missed;
    stop = 1;
    tap_eq_int(gsp_sample__clock_wait(&clock, &stop, &missed), -1);
}

TAP_MAIN()
