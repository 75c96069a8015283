/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/clock.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/map.h"
#include "base/time.h"

/* The clock wakes up early only for periods below EARLY_PERIOD_NS, by a time between the other
 * two. */
#define EARLY_PERIOD_NS (250 * GSP_NS_PER_US)
#define EARLY_MIN_NS    (5 * GSP_NS_PER_US)
#define EARLY_MAX_NS    (150 * GSP_NS_PER_US)

/* On a single CPU, spinning takes time from the target. */
static bool has_spare_cpu(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1;
}

void gsp_sample__clock_start(struct gsp_tick_clock *clock, int64_t period_ns, bool jitter,
                             int64_t now_ns)
{
    *clock = (struct gsp_tick_clock){
        .start_ns = now_ns, .period_ns = period_ns, .jitter = jitter, .seed = (uint64_t)now_ns};
    if (period_ns < EARLY_PERIOD_NS && has_spare_cpu())
        clock->early_ns = EARLY_MIN_NS;
    /* The kernel may otherwise delay each wake-up by 50 µs to save power. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

/* The tick comes at the start of its slot or, with jitter, at a random time in it. */
static int64_t offset_in_slot(struct gsp_tick_clock *clock)
{
    if (!clock->jitter)
        return 0;
    clock->seed = gsp_mix64(clock->seed + 0x9e3779b97f4a7c15ULL);
    return (int64_t)(clock->seed % (uint64_t)clock->period_ns);
}

/* Sleeps until early_ns before due, and adapts early_ns to the wake-up latency. */
static int64_t sleep_until(struct gsp_tick_clock *clock, int64_t due)
{
    int64_t until = due - clock->early_ns;
    struct timespec ts = {.tv_sec = until / GSP_NS_PER_S, .tv_nsec = until % GSP_NS_PER_S};
    int rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
    int64_t now = gsp_now_ns();
    if (rc != 0 || clock->early_ns == 0)
        return now;
    int64_t late = now - until;
    if (late > clock->early_ns)
        clock->early_ns = late < EARLY_MAX_NS ? late : EARLY_MAX_NS;
    return now;
}

/* Spends the part of a long wait that consists of whole polling intervals. */
static int64_t poll_until(const struct gsp_tick_clock *clock, int64_t due, int64_t now,
                          const volatile sig_atomic_t *stop)
{
    while (clock->poll && due - now > clock->poll_ns && !*stop) {
        int64_t until = now + clock->poll_ns;
        struct timespec ts = {.tv_sec = until / GSP_NS_PER_S, .tv_nsec = until % GSP_NS_PER_S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        now = gsp_now_ns();
        clock->poll(clock->user, now);
    }
    return now;
}

int64_t gsp_sample__clock_wait(struct gsp_tick_clock *clock, const volatile sig_atomic_t *stop,
                               uint64_t *missed)
{
    int64_t now = gsp_now_ns();
    int64_t slot = clock->slot + 1;
    int64_t passed = (now - clock->start_ns) / clock->period_ns;
    /* The current slot still counts; the ones before it are lost. */
    *missed = 0;
    if (passed > slot) {
        *missed = (uint64_t)(passed - slot);
        slot = passed;
    }
    clock->slot = slot;
    int64_t due = clock->start_ns + slot * clock->period_ns + offset_in_slot(clock);
    /* Slowly reduces the lead after a latency spike. */
    if (clock->early_ns > EARLY_MIN_NS)
        clock->early_ns -= clock->early_ns / 1024;
    now = poll_until(clock, due, now, stop);
    while (now < due && !*stop)
        now = due - now > clock->early_ns ? sleep_until(clock, due) : gsp_now_ns();
    return *stop ? -1 : now;
}
