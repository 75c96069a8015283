/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_live.h -- the tracked blocks: a map from address to site and size.
 *
 * Open addressing, 12 bytes per block; grows up to a limit. A filter of one byte per hash lets most
 * frees skip the lookup: 0 means "not tracked".
 *
 * Threads: the caller holds the engine's lock; any thread may read the filter.
 * Allocates: with mmap(), at most 20 MB.
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

/* Number of tracked blocks with this hash; saturates at 255. The blocks that a loop allocates are
 * close together, so only a few cache lines of the filter are in use. */
extern _Atomic uint8_t gsp_agent__filter[GSP_AGENT__FILTER];

static inline _Atomic uint8_t *gsp_agent__filter_at(const void *block)
{
    return &gsp_agent__filter[((uintptr_t)block >> 4U) % GSP_AGENT__FILTER];
}

static inline bool gsp_agent__may_be_live(const void *block)
{
    return atomic_load_explicit(gsp_agent__filter_at(block), memory_order_relaxed) != 0;
}

/* Makes the map empty. Returns false if memory runs out. */
bool gsp_agent__live_init(void);
/* Call in a child that was forked during a change: abandons the map, so that the next init
 * allocates a new one. If a signal handler forked, this thread continues its change in the old one.
 */
void gsp_agent__live_abandon(void);
/* Adds a block that is not tracked yet. Returns false if the map is full. */
bool gsp_agent__live_put(const struct gsp_agent__block *block);
/* Removes a block. Returns false if it is not tracked. */
bool gsp_agent__live_remove(const void *block, struct gsp_agent__block *out);
