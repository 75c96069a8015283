/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/map.h"
#include "base/time.h"

void gsp_clock_start(struct gsp_clock *clock, int64_t period_ns, bool jitter, int64_t now_ns)
{
    *clock = (struct gsp_clock){
        .start_ns = now_ns, .period_ns = period_ns, .jitter = jitter, .seed = (uint64_t)now_ns};
    /* The kernel may otherwise delay each wake-up by 50 µs to save power. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

/* When within its slot the tick comes: at its beginning, or anywhere in it. */
static int64_t offset_in_slot(struct gsp_clock *clock)
{
    if (!clock->jitter)
        return 0;
    clock->seed = gsp_mix64(clock->seed + 0x9e3779b97f4a7c15ULL);
    return (int64_t)(clock->seed % (uint64_t)clock->period_ns);
}

int64_t gsp_clock_wait(struct gsp_clock *clock, const volatile sig_atomic_t *stop, uint64_t *missed)
{
    int64_t now = gsp_now_ns();
    int64_t slot = clock->slot + 1;
    int64_t passed = (now - clock->start_ns) / clock->period_ns;
    /* Slot k is still to be had while it lasts; the ones before it are lost. */
    *missed = 0;
    if (passed > slot) {
        *missed = (uint64_t)(passed - slot);
        slot = passed;
    }
    clock->slot = slot;
    int64_t due = clock->start_ns + slot * clock->period_ns + offset_in_slot(clock);
    while (now < due) {
        if (*stop)
            return -1;
        struct timespec ts = {.tv_sec = due / GSP_NS_PER_S, .tv_nsec = due % GSP_NS_PER_S};
        int rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        if (rc != 0 && rc != EINTR)
            break;
        now = gsp_now_ns();
    }
    return *stop ? -1 : now;
}
