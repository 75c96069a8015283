/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_weight.h -- the weight of a sampled allocation.
 *
 * Samples are taken at random points in the stream of allocated bytes, with exponential distances.
 * So a block of n bytes is sampled with probability p = 1 - exp(-n / mean), and represents 1 / p
 * blocks. The same block and size always have the same weight, so a free subtracts exactly what the
 * allocation added.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct gsp_agent__weight {
    uint64_t bytes;
    uint64_t count; /* rounded at random, by the block's address: correct on average */
    uint64_t var;   /* variance of the bytes, KiB^2 */
};

/* mean_bytes 0: every allocation is counted. */
struct gsp_agent__weight gsp_agent__weigh(const void *block, size_t bytes, uint64_t mean_bytes);
/* Returns the next random number, never 0. */
uint64_t gsp_agent__random_next(uint64_t *state);
/* Converts a random number to an exponential distance with this mean. */
int64_t gsp_agent__distance(uint64_t random, uint64_t mean_bytes);
