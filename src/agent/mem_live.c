/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_live.h"

#include <string.h>
#include <sys/mman.h>

#define SLOTS_FIRST  4096U
#define SLOTS_MAX    1640000U
#define LOAD_PCT     85U
#define FILTER_FULL  UINT8_MAX
/* The key of a block: its address without the low bits, which are always 0, and its site. User
 * space addresses have 47 bits (aarch64: 48); some allocators align blocks to only 8 bytes. */
#define SITE_BITS    16U
#define SITE_MASK    ((1U << SITE_BITS) - 1)
#define ADDRESS_BITS 3U
/* Blocks of 4 GB and more are rare; their sizes are in a separate list. */
#define SIZE_IN_LIST UINT32_MAX
#define BIG_MAX      512U

_Atomic uint8_t gsp_agent__filter[GSP_AGENT__FILTER];

static struct {
    uint64_t *keys; /* 0: free */
    uint32_t *sizes;
    uint32_t slots;
    uint32_t count;
    bool is_left; /* abandoned: the pointers may be inconsistent */
    struct {
        uint64_t key;
        uint64_t size;
    } big[BIG_MAX];
} live;

static size_t bytes_of(uint32_t slots)
{
    return (size_t)slots * (sizeof(uint64_t) + sizeof(uint32_t));
}

static uint64_t key_of(const void *block, uint32_t site)
{
    return (uint64_t)((uintptr_t)block >> ADDRESS_BITS) << SITE_BITS | site;
}

/* Returns the preferred slot of a key. */
static uint32_t home_of(uint64_t key, uint32_t slots)
{
    const uint64_t hash = (key >> SITE_BITS) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((hash >> 32) * slots >> 32);
}

static bool map_slots(uint32_t slots, uint64_t **keys, uint32_t **sizes)
{
    void *area = mmap(NULL, bytes_of(slots), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return false;
    *keys = area;
    *sizes = (uint32_t *)(void *)((char *)area + (size_t)slots * sizeof(uint64_t));
    return true;
}

bool gsp_agent__live_init(void)
{
    if (live.keys && !live.is_left)
        munmap(live.keys, bytes_of(live.slots));
    memset(&live, 0, sizeof(live));
    for (uint32_t i = 0; i < GSP_AGENT__FILTER; i++) {
        /* Do not write to pages that were never written. */
        if (atomic_load_explicit(&gsp_agent__filter[i], memory_order_relaxed) != 0)
            atomic_store_explicit(&gsp_agent__filter[i], 0, memory_order_relaxed);
    }
    if (!map_slots(SLOTS_FIRST, &live.keys, &live.sizes))
        return false;
    live.slots = SLOTS_FIRST;
    return true;
}

void gsp_agent__live_abandon(void)
{
    live.is_left = true;
}

static void put_slot(uint64_t *keys, uint32_t *sizes, uint32_t slots, uint64_t key, uint32_t size)
{
    uint32_t at = home_of(key, slots);
    while (keys[at] != 0)
        at = at + 1 == slots ? 0 : at + 1;
    keys[at] = key;
    sizes[at] = size;
}

/* ---------------------------------------------------------------------------------- filter */

static void filter_add(const void *block)
{
    _Atomic uint8_t *at = gsp_agent__filter_at(block);
    const uint8_t now = atomic_load_explicit(at, memory_order_relaxed);
    if (now != FILTER_FULL)
        atomic_store_explicit(at, (uint8_t)(now + 1), memory_order_relaxed);
}

static void filter_remove(const void *block)
{
    _Atomic uint8_t *at = gsp_agent__filter_at(block);
    const uint8_t now = atomic_load_explicit(at, memory_order_relaxed);
    if (now != FILTER_FULL && now != 0)
        atomic_store_explicit(at, (uint8_t)(now - 1), memory_order_relaxed);
}

/* ----------------------------------------------------------------------------------- blocks */

/* Grows the map if necessary. Returns false if it is full. */
static bool fit(void)
{
    if ((uint64_t)live.count * 100 < (uint64_t)live.slots * LOAD_PCT)
        return true;
    uint64_t *keys = NULL;
    uint32_t *sizes = NULL;
    const uint32_t slots = live.slots * 2 < SLOTS_MAX ? live.slots * 2 : SLOTS_MAX;
    if (live.slots == SLOTS_MAX || !map_slots(slots, &keys, &sizes))
        return false;
    for (uint32_t i = 0; i < live.slots; i++)
        if (live.keys[i] != 0)
            put_slot(keys, sizes, slots, live.keys[i], live.sizes[i]);
    munmap(live.keys, bytes_of(live.slots));
    live.keys = keys;
    live.sizes = sizes;
    live.slots = slots;
    return true;
}

static bool put_big(uint64_t key, uint64_t size)
{
    for (uint32_t i = 0; i < BIG_MAX; i++) {
        if (live.big[i].key == 0) {
            live.big[i].key = key;
            live.big[i].size = size;
            return true;
        }
    }
    return false;
}

static uint64_t remove_big(uint64_t key)
{
    for (uint32_t i = 0; i < BIG_MAX; i++) {
        if (live.big[i].key == key) {
            live.big[i].key = 0;
            return live.big[i].size;
        }
    }
    return 0;
}

bool gsp_agent__live_put(const struct gsp_agent__block *block)
{
    const uint64_t key = key_of(block->address, block->site);
    const bool is_big = block->size >= SIZE_IN_LIST;
    if (!live.keys || !fit() || (is_big && !put_big(key, block->size)))
        return false;
    put_slot(live.keys, live.sizes, live.slots, key, is_big ? SIZE_IN_LIST : (uint32_t)block->size);
    live.count++;
    filter_add(block->address);
    return true;
}

/* Closes the gap: moves entries back into it if their preferred slot is not after it. */
static void close_gap(uint32_t gap)
{
    uint32_t at = gap;
    for (;;) {
        at = at + 1 == live.slots ? 0 : at + 1;
        if (live.keys[at] == 0)
            break;
        const uint32_t home = home_of(live.keys[at], live.slots);
        const bool stays = gap <= at ? home > gap && home <= at : home > gap || home <= at;
        if (!stays) {
            live.keys[gap] = live.keys[at];
            live.sizes[gap] = live.sizes[at];
            gap = at;
        }
    }
    live.keys[gap] = 0;
}

bool gsp_agent__live_remove(const void *block, struct gsp_agent__block *out)
{
    const uint64_t address = key_of(block, 0) >> SITE_BITS;
    if (!live.keys || address == 0)
        return false;
    uint32_t at = home_of(key_of(block, 0), live.slots);
    while (live.keys[at] >> SITE_BITS != address) {
        if (live.keys[at] == 0)
            return false;
        at = at + 1 == live.slots ? 0 : at + 1;
    }
    out->address = block;
    out->site = (uint32_t)live.keys[at] & SITE_MASK;
    out->size =
        live.sizes[at] == SIZE_IN_LIST ? (size_t)remove_big(live.keys[at]) : (size_t)live.sizes[at];
    close_gap(at);
    live.count--;
    filter_remove(block);
    return true;
}
