/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define CAP_MIN 16

void gsp_hmap_free(struct gsp_hmap *map)
{
    if (!map)
        return;
    free(map->slots);
    *map = (struct gsp_hmap){0};
}

void gsp_hmap_clear(struct gsp_hmap *map)
{
    if (map->count)
        memset(map->slots, 0, map->cap * sizeof(*map->slots));
    map->count = 0;
}

/* Returns the slot of the key, or the free slot where it belongs. A free slot always exists,
 * because put keeps a quarter of the slots empty. */
static struct gsp_map_slot *probe(struct gsp_map_slot *slots, size_t cap, uint64_t a, uint64_t b)
{
    size_t i = (size_t)gsp_mix64(a ^ gsp_mix64(b + 0x9e3779b97f4a7c15ULL)) & (cap - 1);
    while (slots[i].used && (slots[i].a != a || slots[i].b != b))
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

uint32_t *gsp_hmap_get(const struct gsp_hmap *map, uint64_t a, uint64_t b)
{
    if (map->count == 0)
        return NULL;
    struct gsp_map_slot *slot = probe(map->slots, map->cap, a, b);
    return slot->used ? &slot->value : NULL;
}

static bool grow(struct gsp_hmap *map)
{
    if (map->cap > SIZE_MAX / 2 / sizeof(*map->slots))
        return false;
    size_t cap = map->cap ? map->cap * 2 : CAP_MIN;
    struct gsp_map_slot *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].used)
            *probe(slots, cap, map->slots[i].a, map->slots[i].b) = map->slots[i];
    free(map->slots);
    map->slots = slots;
    map->cap = cap;
    return true;
}

bool gsp_hmap_put(struct gsp_hmap *map, uint64_t a, uint64_t b, uint32_t value)
{
    uint32_t *old = gsp_hmap_get(map, a, b);
    if (old) {
        *old = value;
        return true;
    }
    if (map->count + 1 > map->cap - map->cap / 4 && !grow(map))
        return false;
    *probe(map->slots, map->cap, a, b) = (struct gsp_map_slot){a, b, value, 1};
    map->count++;
    return true;
}

uint64_t gsp_hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = gsp_mix64(seed ^ (len * 0x9e3779b97f4a7c15ULL));
    while (len >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        h = gsp_mix64(h ^ word);
        p += sizeof(word);
        len -= sizeof(word);
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < len; i++)
        tail |= (uint64_t)p[i] << (8 * i);
    return gsp_mix64(h ^ tail);
}
