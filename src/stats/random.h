/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h -- deterministic pseudo-random numbers.
 *
 * Threads: the state belongs to the caller.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

static inline uint64_t gsp_random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    return gsp_mix64(*state);
}

/* 0 <= result < n, for n below 2^32. */
static inline size_t gsp_random_below(uint64_t *state, size_t n)
{
    return (size_t)(((gsp_random_next(state) >> 32) * n) >> 32);
}
