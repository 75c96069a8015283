/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h -- a steady clock: ticks at start + k × period, by absolute time.
 *
 * No drift, and no burst to catch up: slots whose time has passed are counted and left out.
 * Beyond 4,000 ticks a second the clock gets up early, by as much as it was woken late of
 * late, and waits the rest awake: a wake-up can take longer than such a period.
 *
 * Used by: sample/record.c.
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct gsp_clock {
    int64_t start_ns;
    int64_t period_ns;
    int64_t slot;     /* of the tick that was given last */
    int64_t early_ns; /* how much before a tick to get up; 0 at low rates */
    bool jitter;
    uint64_t seed;
    /* Where ticks are far apart: called every nap_ns while waiting for the next one. */
    void (*nap)(void *user, int64_t now_ns); /* NULL: nobody wants to know */
    void *user;
    int64_t nap_ns;
};

void gsp_clock_start(struct gsp_clock *clock, int64_t period_ns, bool jitter, int64_t now_ns);

/* Sleeps to the next tick; *missed is how many slots before it had to be left out.
 * Returns the time of waking, or -1 if *stop was set (or a signal came and set it). */
int64_t gsp_clock_wait(struct gsp_clock *clock, const volatile sig_atomic_t *stop,
                       uint64_t *missed);
