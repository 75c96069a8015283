/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern.c -- the dictionary of a ring: assigns ids to strings. It is lock-free and safe for
 * threads and signal handlers. A thread that is interrupted or killed between two steps leaves at
 * worst an unused id and some unused bytes.
 */
#include <string.h>

#include "base/map.h"
#include "ring/ring_internal.h"

/* Whether the id stands for this string. Does not trust the file. */
static bool is_string(const struct gsp_ring *ring, uint32_t id, struct gsp_sv text)
{
    if (id == 0 || id > ring->string_max)
        return false;
    /* Partner: the store of the entry in add(). */
    const uint64_t ref = atomic_load_explicit(&ring->refs[id - 1], memory_order_acquire);
    const uint64_t pos = gsp_ring_ref_pos(ref);
    return gsp_ring_ref_len(ref) == text.len && pos <= ring->string_bytes_max &&
           text.len <= ring->string_bytes_max - pos &&
           (text.len == 0 || memcmp(ring->string_bytes + pos, text.p, text.len) == 0);
}

/* Adds n to a counter and stores its old value in *at. Returns false if it would exceed max. */
static bool reserve64(_Atomic uint64_t *counter, uint64_t n, uint64_t max, uint64_t *at)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    do {
        if (now > max || n > max - now)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(counter, &now, now + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    *at = now;
    return true;
}

static bool reserve32(_Atomic uint32_t *counter, uint32_t max, uint32_t *at)
{
    uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);
    do {
        if (now >= max)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(counter, &now, now + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *at = now;
    return true;
}

/* Writes the string and its entry. Returns its id, or GSP_NULL_STR if the dictionary is full. */
static uint32_t add(struct gsp_ring *ring, struct gsp_sv text)
{
    struct gsp_ring_strings *strings = ring->strings;
    uint64_t pos = 0;
    uint32_t index = 0;
    if (!reserve64(&strings->bytes_used, text.len, ring->string_bytes_max, &pos) ||
        !reserve32(&strings->count, ring->string_max, &index)) {
        atomic_fetch_or_explicit(&ring->head->status, GSP_RING_NO_STRINGS, memory_order_relaxed);
        return GSP_NULL_STR;
    }
    if (text.len)
        memcpy(ring->string_bytes + pos, text.p, text.len);
    /* After the bytes. Partners: is_string() and gsp_ring_dict_read(). */
    atomic_store_explicit(&ring->refs[index], gsp_ring_ref(pos, (uint32_t)text.len),
                          memory_order_release);
    return index + 1;
}

uint32_t gsp_ring_intern(struct gsp_ring *ring, struct gsp_sv text)
{
    if (!text.p)
        return GSP_NULL_STR;
    if (text.len > GSP_RING_REF_LEN_MAX)
        text.len = GSP_RING_REF_LEN_MAX;
    const uint64_t hash = gsp_hash_bytes(text.p, text.len, 0);
    const uint32_t mask = ring->slot_count - 1;
    uint32_t added = GSP_NULL_STR;
    for (uint32_t i = 0; i < ring->slot_count; i++) {
        _Atomic uint64_t *slot = &ring->slots[((uint32_t)hash + i) & mask];
        /* Partner: the exchange below, which follows the store of the entry. */
        uint64_t word = atomic_load_explicit(slot, memory_order_acquire);
        if (word == 0) {
            if (added == GSP_NULL_STR)
                added = add(ring, text);
            if (added == GSP_NULL_STR)
                break;
            if (atomic_compare_exchange_strong_explicit(slot, &word, (hash >> 32 << 32) | added,
                                                        memory_order_acq_rel, memory_order_acquire))
                return added;
        }
        if (word >> 32 == hash >> 32 && is_string(ring, (uint32_t)word, text))
            return (uint32_t)word;
    }
    if (added == GSP_NULL_STR)
        atomic_fetch_add_explicit(&ring->head->strings_lost, 1, memory_order_relaxed);
    return added;
}
