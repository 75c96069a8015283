/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/memory.h"

#include <string.h>

#define ALIGN 64U

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t gsp_wire_memory_bytes(const struct gsp_memory_capacity *room)
{
    return (size_t)(GSP_MEMORY_HEAD + aligned(room->strings_bytes) +
                    aligned((uint64_t)room->frames * sizeof(struct gsp_memory_frame)) +
                    aligned((uint64_t)room->nodes * sizeof(struct gsp_memory_node)) +
                    aligned((uint64_t)room->sites * sizeof(struct gsp_memory_site)));
}

void gsp_wire_memory_init(struct gsp_memory_head *head, const struct gsp_memory_capacity *room)
{
    memcpy(head->magic, GSP_MEMORY_MAGIC, sizeof(head->magic));
    head->version = GSP_MEMORY_VERSION;
    head->byte_order = GSP_MEMORY_BYTE_ORDER;
    head->file_bytes = gsp_wire_memory_bytes(room);
    head->strings_off = GSP_MEMORY_HEAD;
    head->strings_bytes = room->strings_bytes;
    head->frames_off = head->strings_off + aligned(room->strings_bytes);
    head->frame_max = room->frames;
    head->nodes_off =
        head->frames_off + aligned((uint64_t)room->frames * sizeof(struct gsp_memory_frame));
    head->node_max = room->nodes;
    head->sites_off =
        head->nodes_off + aligned((uint64_t)room->nodes * sizeof(struct gsp_memory_node));
    head->site_max = room->sites;
    atomic_store_explicit(&head->strings_used, (uint32_t)sizeof(struct gsp_wire_memory_text),
                          memory_order_relaxed);
    atomic_store_explicit(&head->frame_count, 1, memory_order_relaxed);
    atomic_store_explicit(&head->node_count, 1, memory_order_relaxed);
}

/* Whether an area of count elements lies after *at and within bytes. Moves *at to its end. */
static bool check_area(uint64_t *at, uint64_t off, uint64_t count, uint64_t each, uint64_t bytes)
{
    if (off % 8 != 0 || off < *at || off > bytes || count > (bytes - off) / each)
        return false;
    *at = off + count * each;
    return true;
}

bool gsp_wire_memory_head_is_valid(const struct gsp_memory_head *head, size_t bytes)
{
    uint64_t at = GSP_MEMORY_HEAD;
    if (bytes < GSP_MEMORY_HEAD || bytes > GSP_MEMORY_BYTES_MAX ||
        memcmp(head->magic, GSP_MEMORY_MAGIC, sizeof(head->magic)) != 0 ||
        head->version != GSP_MEMORY_VERSION || head->byte_order != GSP_MEMORY_BYTE_ORDER ||
        head->mode >= GSP_MEMORY_MODES)
        return false;
    return check_area(&at, head->strings_off, head->strings_bytes, 1, bytes) &&
           check_area(&at, head->frames_off, head->frame_max, sizeof(struct gsp_memory_frame),
                      bytes) &&
           check_area(&at, head->nodes_off, head->node_max, sizeof(struct gsp_memory_node),
                      bytes) &&
           check_area(&at, head->sites_off, head->site_max, sizeof(struct gsp_memory_site),
                      bytes) &&
           head->strings_used <= head->strings_bytes && head->frame_count <= head->frame_max &&
           head->node_count <= head->node_max && head->site_count <= head->site_max;
}

struct gsp_sv gsp_wire_memory_text(const char *strings, size_t used, uint32_t at)
{
    uint32_t len = 0;
    const size_t head = sizeof(struct gsp_wire_memory_text);
    if (at == 0 || at % 4 != 0 || at > used || used - at < head)
        return (struct gsp_sv){"", 0};
    memcpy(&len, strings + at, sizeof(len));
    if (len > used - at - head)
        return (struct gsp_sv){"", 0};
    return (struct gsp_sv){strings + at + head, len};
}

const char *gsp_wire_memory_allocator_name(uint32_t allocator)
{
    static const char *const names[GSP_MEMORY_ALLOCATORS] = {
        [GSP_MEMORY_MALLOC] = "malloc",      [GSP_MEMORY_MMAP] = "mmap",
        [GSP_MEMORY_PY_RAW] = "pyraw",       [GSP_MEMORY_PY_MEM] = "pymem",
        [GSP_MEMORY_PY_OBJECT] = "pyobject",
    };
    return allocator < GSP_MEMORY_ALLOCATORS ? names[allocator] : "?";
}

const char *gsp_wire_memory_loss_name(uint32_t loss)
{
    static const char *const names[GSP_MEMORY_LOSSES] = {
        [GSP_MEMORY_LOST_STACK] = "stack",   [GSP_MEMORY_LOST_LIVE] = "live",
        [GSP_MEMORY_LOST_NESTED] = "nested", [GSP_MEMORY_LOST_TORN] = "torn",
        [GSP_MEMORY_LOST_FREE] = "free",     [GSP_MEMORY_CUT_STACKS] = "cut",
    };
    return loss < GSP_MEMORY_LOSSES ? names[loss] : "?";
}

const char *gsp_wire_memory_mode_name(uint32_t mode)
{
    static const char *const names[GSP_MEMORY_MODES] = {
        [GSP_MEMORY_OFF] = "off",
        [GSP_MEMORY_SAMPLED] = "sampled",
        [GSP_MEMORY_EXACT] = "exact",
    };
    return mode < GSP_MEMORY_MODES ? names[mode] : "?";
}
