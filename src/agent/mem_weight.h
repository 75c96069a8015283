/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_weight.h -- what a sample stands for.
 *
 * Bytes are sampled at random points whose distances are exponential, so a block of n bytes is seen
 * with the probability p = 1 - exp(-n / mean) and stands for 1 / p blocks.  The same block and size
 * always give the same weight: what was added when it came is subtracted when it goes.
 *
 * Used by: mem_count.c, tests.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct gsp_agent__weight {
    uint64_t bytes;
    uint64_t count; /* rounded by the block's address: right on the average */
    uint64_t var;   /* of the bytes, KiB^2 */
};

/* mean_bytes 0: everything is seen. */
struct gsp_agent__weight gsp_agent__weigh(const void *block, size_t bytes, uint64_t mean_bytes);
/* The next random number, never 0. */
uint64_t gsp_agent__random_next(uint64_t *state);
/* A distance, of this mean, from a random number. */
int64_t gsp_agent__distance(uint64_t random, uint64_t mean_bytes);
