/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_tables.h"

#include <string.h>
#include <sys/mman.h>

#include "base/time.h"

/* Twice the larger capacity, so that probes stay short. */
#define TEXT_SLOTS  (1U << 15)
#define TEXT_TRIES  64U /* limit for probes in a table that is almost full */
#define FRAME_SLOTS (1U << 16)
#define NODE_SLOTS  (1U << 18)
#define SITE_SLOTS  (1U << 16)
/* Several instructions of one line share a frame, so there are more keys than frames. */
#define KEYS_MAX    49152U
#define LINE_KEY    (UINT64_C(1) << 63)
#define TEXT_MAX    1024U /* bytes of a name; longer ones are truncated */

const struct gsp_memory_capacity gsp_agent__mem_capacity[GSP_MEMORY_MODES] = {
    [GSP_MEMORY_SAMPLED] = {1U << 20, 1U << 14, 1U << 16, 1U << 13},
    [GSP_MEMORY_EXACT] = {3U << 19, 1U << 15, 1U << 17, 1U << 15},
};

/* Numbers of entries by hash; 0 is free. */
static struct indexes {
    uint32_t text[TEXT_SLOTS];
    uint32_t frame[FRAME_SLOTS];
    uint32_t node[NODE_SLOTS];
    uint32_t site[SITE_SLOTS]; /* 1 + the site's number */
    struct {
        struct gsp_agent__frame_key key;
        uint32_t frame;
    } keys[KEYS_MAX]; /* number 0 is not used */
    uint32_t key_count;
} * by;

static struct gsp_memory_head *head;

static void *area(uint64_t off)
{
    return (char *)head + off;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = (a ^ (b * odd)) * odd;
    sum ^= sum >> 29;
    sum *= UINT64_C(0xbf58476d1ce4e5b9);
    return sum ^ sum >> 32;
}

bool gsp_agent__tables_init(struct gsp_memory_head *to)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    /* Maps zeros over the old indexes, if any. */
    void *mapped =
        mmap(by, sizeof(*by), PROT_READ | PROT_WRITE, flags | (by ? MAP_FIXED : 0), -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    by = mapped;
    head = to;
    /* One site without a stack for each allocator, so that a site always exists. */
    for (uint32_t i = 0; i < GSP_MEMORY_ALLOCATORS; i++)
        gsp_agent__site_at(i)->allocator = i;
    atomic_store_explicit(&head->site_count, GSP_MEMORY_ALLOCATORS, memory_order_release);
    const struct gsp_agent__frame_key key = {.code = 1};
    const struct gsp_memory_frame cut = {
        .name = gsp_agent__text_put(gsp_sv_of("...")),
        .kind = GSP_MEMORY_CUT,
    };
    return gsp_agent__frame_put(&key, &cut) == GSP_AGENT__CUT_FRAME &&
           gsp_agent__node_put(0, GSP_AGENT__CUT_FRAME) == GSP_AGENT__SHORT;
}

/* --------------------------------------------------------------------------------- strings */

static uint64_t hash_text(struct gsp_sv text)
{
    uint64_t sum = text.len;
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, text.p + i, 8);
        sum = mix(sum, word);
    }
    for (; i < text.len; i++)
        sum = sum * 31 + (unsigned char)text.p[i];
    return mix(sum, 0);
}

uint32_t gsp_agent__text_put(struct gsp_sv text)
{
    text.len = text.len < TEXT_MAX ? text.len : TEXT_MAX;
    char *strings = area(head->strings_off);
    const uint32_t used = atomic_load_explicit(&head->strings_used, memory_order_relaxed);
    uint32_t slot = (uint32_t)hash_text(text) & (TEXT_SLOTS - 1);
    for (uint32_t i = 0; i < TEXT_TRIES; i++, slot = (slot + 1) & (TEXT_SLOTS - 1)) {
        const uint32_t at = by->text[slot];
        if (at == 0)
            break;
        if (gsp_sv_eq(gsp_wire_memory_text(strings, used, at), text))
            return at;
    }
    const uint32_t bytes = ((uint32_t)(sizeof(uint32_t) + text.len) + 3) & ~3U;
    if (text.len == 0 || by->text[slot] != 0 || head->strings_bytes - used < bytes)
        return 0;
    const uint32_t len = (uint32_t)text.len;
    memcpy(strings + used, &len, sizeof(len));
    memcpy(strings + used + sizeof(len), text.p, text.len);
    by->text[slot] = used;
    /* Partner: the load of a reader in another process. The same applies to the other counts. */
    atomic_store_explicit(&head->strings_used, used + bytes, memory_order_release);
    return used;
}

/* ---------------------------------------------------------------------------------- frames */

static bool same_key(const struct gsp_agent__frame_key *a, const struct gsp_agent__frame_key *b)
{
    return a->code == b->code && a->instr == b->instr && a->name == b->name && a->file == b->file &&
           a->table == b->table && a->mark == b->mark;
}

/* Returns the slot of the key, or the free slot where it belongs. */
static uint32_t key_slot(const struct gsp_agent__frame_key *key)
{
    uint32_t slot = (uint32_t)mix(key->code, key->instr) & (FRAME_SLOTS - 1);
    while (by->frame[slot] != 0 && !same_key(&by->keys[by->frame[slot]].key, key))
        slot = (slot + 1) & (FRAME_SLOTS - 1);
    return slot;
}

uint32_t gsp_agent__frame_find(const struct gsp_agent__frame_key *key)
{
    const uint32_t slot = key_slot(key);
    return by->frame[slot] != 0 ? by->keys[by->frame[slot]].frame : 0;
}

bool gsp_agent__frames_full(void)
{
    /* A frame needs two keys. */
    return by->key_count + 2 >= KEYS_MAX ||
           atomic_load_explicit(&head->frame_count, memory_order_relaxed) >= head->frame_max;
}

static bool key_put(const struct gsp_agent__frame_key *key, uint32_t frame)
{
    if (by->key_count + 1 >= KEYS_MAX)
        return false;
    const uint32_t number = ++by->key_count;
    by->keys[number].key = *key;
    by->keys[number].frame = frame;
    by->frame[key_slot(key)] = number;
    return true;
}

bool gsp_agent__frame_is_own(uint32_t frame)
{
    const struct gsp_memory_frame *frames = area(head->frames_off);
    return frames[frame].kind == GSP_MEMORY_OWN;
}

uint32_t gsp_agent__frame_put(const struct gsp_agent__frame_key *key,
                              const struct gsp_memory_frame *frame)
{
    /* The key of the line. No instruction has such an address. */
    struct gsp_agent__frame_key line_key = *key;
    line_key.instr = (uint64_t)frame->line | LINE_KEY;
    uint32_t number = gsp_agent__frame_find(&line_key);
    if (number == 0) {
        number = atomic_load_explicit(&head->frame_count, memory_order_relaxed);
        if (number >= head->frame_max || !key_put(&line_key, number))
            return 0;
        struct gsp_memory_frame *frames = area(head->frames_off);
        frames[number] = *frame;
        atomic_store_explicit(&head->frame_count, number + 1, memory_order_release);
    }
    /* If no key is free, the frame is decoded again next time. */
    if (gsp_agent__frame_find(key) == 0)
        gsp_ignore(key_put(key, number));
    return number;
}

/* ----------------------------------------------------------------------------------- nodes */

static bool is_short(uint32_t node)
{
    const struct gsp_memory_node *nodes = area(head->nodes_off);
    return node == GSP_AGENT__SHORT || nodes[node].parent == GSP_AGENT__SHORT ||
           nodes[nodes[node].parent].parent == GSP_AGENT__SHORT;
}

/* Returns the part of the capacity for full stacks. */
static uint32_t whole_part(uint32_t max)
{
    return max - max / 4;
}

uint32_t gsp_agent__node_short(uint32_t node)
{
    const struct gsp_memory_node *nodes = area(head->nodes_off);
    const struct gsp_memory_frame *frames = area(head->frames_off);
    const uint32_t frame = nodes[node].frame;
    if (frames[frame].kind != GSP_MEMORY_NATIVE)
        return gsp_agent__node_put(GSP_AGENT__SHORT, frame);
    const uint32_t above = nodes[nodes[node].parent].frame;
    const bool has_function = frames[above].kind == GSP_MEMORY_PYTHON;
    const uint32_t under =
        has_function ? gsp_agent__node_put(GSP_AGENT__SHORT, above) : GSP_AGENT__SHORT;
    return under != 0 ? gsp_agent__node_put(under, frame) : 0;
}

uint32_t gsp_agent__node_put(uint32_t parent, uint32_t frame)
{
    struct gsp_memory_node *nodes = area(head->nodes_off);
    uint32_t slot = (uint32_t)mix(parent, frame) & (NODE_SLOTS - 1);
    while (by->node[slot] != 0) {
        const struct gsp_memory_node *node = &nodes[by->node[slot]];
        if (node->parent == parent && node->frame == frame)
            return by->node[slot];
        slot = (slot + 1) & (NODE_SLOTS - 1);
    }
    const uint32_t number = atomic_load_explicit(&head->node_count, memory_order_relaxed);
    const uint32_t max = is_short(parent) ? head->node_max : whole_part(head->node_max);
    if (frame == 0 || number >= max)
        return 0;
    nodes[number] = (struct gsp_memory_node){parent, frame};
    by->node[slot] = number;
    atomic_store_explicit(&head->node_count, number + 1, memory_order_release);
    return number;
}

/* ----------------------------------------------------------------------------------- sites */

struct gsp_memory_site *gsp_agent__site_at(uint32_t site)
{
    return (struct gsp_memory_site *)area(head->sites_off) + site;
}

uint32_t gsp_agent__site_put(uint32_t node, uint32_t allocator, bool *is_full)
{
    *is_full = false;
    if (node == 0)
        return allocator;
    uint32_t slot = (uint32_t)mix(node, allocator) & (SITE_SLOTS - 1);
    while (by->site[slot] != 0) {
        const struct gsp_memory_site *site = gsp_agent__site_at(by->site[slot] - 1);
        if (site->node == node && site->allocator == allocator)
            return by->site[slot] - 1;
        slot = (slot + 1) & (SITE_SLOTS - 1);
    }
    const uint32_t number = atomic_load_explicit(&head->site_count, memory_order_relaxed);
    if (number >= (is_short(node) ? head->site_max : whole_part(head->site_max))) {
        *is_full = true;
        return allocator;
    }
    struct gsp_memory_site *site = gsp_agent__site_at(number);
    site->node = node;
    site->allocator = allocator;
    site->first_ns = gsp_now_ns();
    by->site[slot] = number + 1;
    atomic_store_explicit(&head->site_count, number + 1, memory_order_release);
    return number;
}
