/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_live.h -- the blocks that are followed to their end: address -> site and size.
 *
 * Open addressing, 12 bytes a block; grows up to a limit.  In front of it, for those who free, a
 * filter of one byte that says "surely not followed".
 *
 * Used by: mem_count.c, mem_hook.c (the filter).
 * Threads: the caller holds the engine's lock; the filter is read by all.
 * Allocates: by mmap(), at most 21 MB.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GSP_AGENT__FILTER_MAX (1U << 18)

struct gsp_agent__block {
    const void *address;
    size_t size;
    uint32_t site;
};

/* How many followed blocks have this hash; 255 stays.  Only the first mask + 1 are used. */
extern _Atomic uint8_t gsp_agent__filter[GSP_AGENT__FILTER_MAX];
extern _Atomic uint32_t gsp_agent__filter_mask;

static inline uint32_t gsp_agent__filter_hash(const void *block)
{
    return (uint32_t)((uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> 40U);
}

static inline bool gsp_agent__may_be_live(const void *block)
{
    const uint32_t mask = atomic_load_explicit(&gsp_agent__filter_mask, memory_order_relaxed);
    return atomic_load_explicit(&gsp_agent__filter[gsp_agent__filter_hash(block) & mask],
                                memory_order_relaxed) != 0;
}

/* Empty, with a filter or without (then everything may be live). */
bool gsp_agent__live_init(bool with_filter);
/* Follows a block that is not followed yet; false when there is no room. */
bool gsp_agent__live_put(const struct gsp_agent__block *block);
/* Takes a block out; false when it is not followed. */
bool gsp_agent__live_take(const void *block, struct gsp_agent__block *out);
