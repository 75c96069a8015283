/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_memory.h -- the memory of a Python process as a fuzz input: a head and regions.
 *
 *   head      struct memory_head
 *   region    u64 address, u32 length, then its bytes; until the end of the input
 *
 * tests/fuzz/record_memory.c writes inputs from running processes. The head can request that the
 * memory changes while it is read, as in a process that runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "py/target_internal.h"

#define MEMORY_MAGIC       "GSPM"
#define MEMORY_REGIONS_MAX 8192U

enum memory_flag {
    MEMORY_FREE_THREADED = 1,
    MEMORY_STOPPED = 2,
    MEMORY_CHANGES = 4, /* a word of each answer is sometimes replaced by an address */
};

struct memory_head {
    char magic[4];
    uint8_t minor; /* 3.<minor> */
    uint8_t flags;
    uint16_t seed; /* of the changes */
    uint64_t runtime;
    uint64_t code_type;
    uint64_t asyncio_debug;
};

struct memory_image {
    struct memory_head head;
    struct gsp_mem_region *regions; /* ascending */
    size_t count;
    uint32_t random;
    uint64_t reads;
};

static inline uint32_t memory_random(struct memory_image *image)
{
    image->random = image->random * 1664525U + 1013904223U;
    return image->random >> 8;
}

static inline int memory_by_address(const void *a, const void *b)
{
    const struct gsp_mem_region *x = a;
    const struct gsp_mem_region *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

static inline const struct gsp_mem_region *memory_find(const struct memory_image *image,
                                                       uint64_t addr)
{
    size_t low = 0;
    size_t high = image->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (image->regions[mid].addr <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? &image->regions[low - 1] : NULL;
}

/* Replaces an aligned word by the start of a region, or a bit of it. */
static inline void memory_change(struct memory_image *image, unsigned char *bytes, size_t len)
{
    const uint32_t choice = memory_random(image);
    if (len < 8 || choice % 16 != 0)
        return;
    const size_t at = memory_random(image) % (len / 8) * 8;
    uint64_t word = image->regions[memory_random(image) % image->count].addr;
    if (choice & 256)
        bytes[at] ^= (unsigned char)(1U << (choice >> 9 & 7));
    else
        memcpy(bytes + at, &word, sizeof(word));
}

static inline int memory_gather(void *self, const struct gsp_mem_span *spans, size_t count,
                                size_t *done)
{
    struct memory_image *image = self;
    for (size_t i = 0; i < count; i++) {
        const struct gsp_mem_region *region = memory_find(image, spans[i].addr);
        const uint64_t off = region ? spans[i].addr - region->addr : 0;
        *done = i;
        image->reads++;
        if (!region || off > region->len || spans[i].len > region->len - off)
            return GSP_E_FAULT;
        memcpy(spans[i].to, (const char *)region->bytes + off, spans[i].len);
        if (image->head.flags & MEMORY_CHANGES)
            memory_change(image, spans[i].to, spans[i].len);
    }
    *done = count;
    return GSP_OK;
}

static inline void memory_free_nothing(void *self)
{
    (void)self;
}

/* Parses an input; the bytes of the regions are borrowed. */
static inline bool memory_parse(const uint8_t *data, size_t size, struct memory_image *out)
{
    *out = (struct memory_image){0};
    if (size < sizeof(out->head))
        return false;
    memcpy(&out->head, data, sizeof(out->head));
    if (memcmp(out->head.magic, MEMORY_MAGIC, sizeof(out->head.magic)) != 0)
        return false;
    out->random = out->head.seed;
    out->regions = malloc(MEMORY_REGIONS_MAX * sizeof(*out->regions));
    if (!out->regions)
        abort();
    size_t at = sizeof(out->head);
    while (size - at >= 12 && out->count < MEMORY_REGIONS_MAX) {
        uint64_t addr;
        uint32_t len;
        memcpy(&addr, data + at, sizeof(addr));
        memcpy(&len, data + at + 8, sizeof(len));
        at += 12;
        if (len > size - at)
            len = (uint32_t)(size - at);
        out->regions[out->count++] = (struct gsp_mem_region){addr, len, data + at};
        at += len;
    }
    if (out->count)
        qsort(out->regions, out->count, sizeof(*out->regions), memory_by_address);
    return out->count > 0;
}

static inline struct gsp_mem *memory_open(struct memory_image *image)
{
    static const struct gsp_mem_ops OPS = {memory_gather, memory_free_nothing};
    struct gsp_mem *mem = NULL;
    if (gsp_proc__mem_open_ops(&OPS, image, &mem, NULL) != GSP_OK)
        abort();
    return mem;
}

/* Chooses the layout as locate.c does: from 3.13 on it is in the target's memory. */
static inline bool memory_runtime(const struct memory_image *image, struct gsp_mem *mem,
                                  struct gsp_py_runtime *out)
{
    const struct memory_head *head = &image->head;
    *out = (struct gsp_py_runtime){
        .addr = head->runtime, .code_type = head->code_type, .asyncio_debug = head->asyncio_debug};
    if (head->minor >= 13) {
        unsigned char bytes[GSP_PY_DEBUG_OFFSETS_MAX];
        return gsp_proc_mem_read(mem, out->addr, bytes, sizeof(bytes)) == GSP_OK &&
               gsp_py_debug_offsets_read(bytes, sizeof(bytes), &out->layout, NULL) == GSP_OK;
    }
    const struct gsp_py_layout *layout =
        gsp_py_layout_find(head->minor, (head->flags & MEMORY_FREE_THREADED) != 0);
    if (layout)
        out->layout = *layout;
    return layout != NULL;
}

/* Opens the target of an input; NULL if it is not one. */
static inline struct gsp_py_target *memory_target(struct memory_image *image)
{
    struct gsp_py_runtime runtime;
    struct gsp_py_target *target = NULL;
    struct gsp_mem *mem = memory_open(image);
    if (!memory_runtime(image, mem, &runtime)) {
        gsp_proc_mem_free(mem);
        return NULL;
    }
    gsp_ignore(gsp_py__target_open_located(mem, &runtime, &target, NULL));
    return target;
}
