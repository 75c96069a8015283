/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_live.h -- the blocks that are followed to their end: address -> site and size.
 *
 * Open addressing, 12 bytes a block; grows up to a limit.  In front of it, for those who free, a
 * filter of one byte that says "surely not followed".
 *
 * Used by: mem_count.c, mem_hook.c (the filter of sampled mode).
 * Threads: the caller holds the engine's lock; the filter is read by all.
 * Allocates: by mmap(), at most 20 MB.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GSP_AGENT__FILTER (1U << 18)

struct gsp_agent__block {
    const void *address;
    size_t size;
    uint32_t site;
};

/* How many followed blocks have this hash; 255 stays.  What a loop allocates again and again lies
 * close together, so of its size only some lines are ever in use. */
extern _Atomic uint8_t gsp_agent__filter[GSP_AGENT__FILTER];

static inline _Atomic uint8_t *gsp_agent__filter_at(const void *block)
{
    return &gsp_agent__filter[((uintptr_t)block >> 4U) % GSP_AGENT__FILTER];
}

static inline bool gsp_agent__may_be_live(const void *block)
{
    return atomic_load_explicit(gsp_agent__filter_at(block), memory_order_relaxed) != 0;
}

/* Empty. */
bool gsp_agent__live_init(void);
/* In a child that was forked amid a change: the table is left where it is, and the next begins
 * elsewhere.  If a signal handler forked, the change is this thread's own and goes on after it. */
void gsp_agent__live_forget(void);
/* Follows a block that is not followed yet; false when there is no room. */
bool gsp_agent__live_put(const struct gsp_agent__block *block);
/* Takes a block out; false when it is not followed. */
bool gsp_agent__live_take(const void *block, struct gsp_agent__block *out);
