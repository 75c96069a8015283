/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h -- a hash table from two 64-bit words to a 32-bit value, and hash functions.
 *
 * Open addressing with linear probing. Made for interning: single keys cannot be deleted.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct gsp_map_slot {
    uint64_t a;
    uint64_t b;
    uint32_t value;
    uint32_t used;
};

struct gsp_hmap {
    struct gsp_map_slot *slots;
    size_t cap; /* power of two, or 0 */
    size_t count;
};

void gsp_hmap_free(struct gsp_hmap *map);
void gsp_hmap_clear(struct gsp_hmap *map);

/* Returns the value of the key, borrowed until the next put, or NULL if the key is absent. */
uint32_t *gsp_hmap_get(const struct gsp_hmap *map, uint64_t a, uint64_t b);

/* Sets the value. Returns false if memory runs out; the map is then unchanged. */
GSP_MUST_CHECK bool gsp_hmap_put(struct gsp_hmap *map, uint64_t a, uint64_t b, uint32_t value);

static inline uint64_t gsp_mix64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    return x;
}

uint64_t gsp_hash_bytes(const void *bytes, size_t len, uint64_t seed);
