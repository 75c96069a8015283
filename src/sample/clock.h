/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h -- a steady clock: ticks at start + k × period, in absolute time.
 *
 * The clock does not drift, and it does not catch up in bursts: it counts and skips the slots whose
 * time has passed. Above 4,000 ticks per second it wakes up early, by the recent wake-up latency,
 * and spins for the rest, because a wake-up can take longer than such a period.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct gsp_tick_clock {
    int64_t start_ns;
    int64_t period_ns;
    int64_t slot;     /* of the last tick */
    int64_t early_ns; /* how long before a tick to wake up; 0 at low rates */
    bool jitter;
    uint64_t seed;
    /* Called every poll_ns while the clock waits for a tick that is further away than that. */
    void (*poll)(void *user, int64_t now_ns); /* may be NULL */
    void *user;
    int64_t poll_ns;
};

void gsp_sample__clock_start(struct gsp_tick_clock *clock, int64_t period_ns, bool jitter,
                             int64_t now_ns);

/* Sleeps until the next tick. *missed is the number of slots skipped before it. Returns the time
 * of the wake-up, or -1 if *stop is set. */
int64_t gsp_sample__clock_wait(struct gsp_tick_clock *clock, const volatile sig_atomic_t *stop,
                               uint64_t *missed);
