/* SPDX-License-Identifier: Apache-2.0 */
#include "export/flatbuf.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)1 << 30)
#define CAP_FIRST 1024U

void gsp_export__fb_free(struct gsp_fb *fb)
{
    free(fb->bytes);
    *fb = (struct gsp_fb){0};
}

/* Reserves n bytes in front. Returns NULL on failure. */
static unsigned char *reserve(struct gsp_fb *fb, size_t n)
{
    if (fb->failed || n > BYTES_MAX || fb->used + n > BYTES_MAX) {
        fb->failed = true;
        return NULL;
    }
    if (fb->used + n > fb->cap) {
        size_t cap = fb->cap ? fb->cap : CAP_FIRST;
        while (cap < fb->used + n)
            cap *= 2;
        unsigned char *bytes = malloc(cap);
        if (!bytes) {
            fb->failed = true;
            return NULL;
        }
        if (fb->used)
            memcpy(bytes + cap - fb->used, fb->bytes + fb->cap - fb->used, fb->used);
        free(fb->bytes);
        fb->bytes = bytes;
        fb->cap = cap;
    }
    fb->used += n;
    return fb->bytes + fb->cap - fb->used;
}

static void put(struct gsp_fb *fb, const void *bytes, size_t n)
{
    unsigned char *at = reserve(fb, n);
    if (at && n)
        memcpy(at, bytes, n);
}

/* Adds zeros so that an object of n bytes written next begins at a multiple of align. */
static void pad(struct gsp_fb *fb, size_t n, size_t align)
{
    size_t rest = (fb->used + n) % align;
    fb->align = align > fb->align ? align : fb->align;
    if (rest) {
        static const unsigned char ZEROS[8];
        put(fb, ZEROS, align - rest);
    }
}

/* FlatBuffers are little-endian, and so is every supported machine. */
static void put_u32(struct gsp_fb *fb, uint32_t v)
{
    put(fb, &v, sizeof(v));
}

static gsp_fb_ref here(const struct gsp_fb *fb)
{
    return fb->failed ? 0 : (gsp_fb_ref)fb->used;
}

/* A reference is the distance from its own position to the object. */
static void put_ref(struct gsp_fb *fb, gsp_fb_ref ref)
{
    put_u32(fb, (uint32_t)fb->used + (uint32_t)sizeof(uint32_t) - ref);
}

gsp_fb_ref gsp_export__fb_string(struct gsp_fb *fb, struct gsp_sv text)
{
    if (text.len > BYTES_MAX) {
        fb->failed = true;
        return 0;
    }
    pad(fb, text.len + 1, sizeof(uint32_t));
    put(fb, "", 1);
    put(fb, text.p, text.len);
    put_u32(fb, (uint32_t)text.len);
    return here(fb);
}

gsp_fb_ref gsp_export__fb_refs(struct gsp_fb *fb, const gsp_fb_ref *refs, size_t count)
{
    pad(fb, count * sizeof(*refs), sizeof(uint32_t));
    for (size_t i = count; i > 0; i--)
        put_ref(fb, refs[i - 1]);
    put_u32(fb, (uint32_t)count);
    return here(fb);
}

gsp_fb_ref gsp_export__fb_words(struct gsp_fb *fb, const int64_t *words, size_t words_each,
                                size_t count)
{
    size_t bytes = count * words_each * sizeof(*words);
    pad(fb, bytes, sizeof(*words));
    put(fb, words, bytes);
    put_u32(fb, (uint32_t)count);
    return here(fb);
}

void gsp_export__fb_begin(struct gsp_fb *fb)
{
    memset(fb->slots, 0, sizeof(fb->slots));
    fb->slot_count = 0;
    fb->table_start = (gsp_fb_ref)fb->used;
}

static void put_field(struct gsp_fb *fb, unsigned slot, const void *bytes, size_t n)
{
    if (slot >= GSP_FB_SLOTS_MAX) {
        fb->failed = true;
        return;
    }
    pad(fb, n, n);
    put(fb, bytes, n);
    fb->slots[slot] = here(fb);
    fb->slot_count = slot >= fb->slot_count ? slot + 1 : fb->slot_count;
}

void gsp_export__fb_u8(struct gsp_fb *fb, unsigned slot, uint8_t v)
{
    put_field(fb, slot, &v, sizeof(v));
}

void gsp_export__fb_i16(struct gsp_fb *fb, unsigned slot, int16_t v)
{
    put_field(fb, slot, &v, sizeof(v));
}

void gsp_export__fb_i32(struct gsp_fb *fb, unsigned slot, int32_t v)
{
    put_field(fb, slot, &v, sizeof(v));
}

void gsp_export__fb_i64(struct gsp_fb *fb, unsigned slot, int64_t v)
{
    put_field(fb, slot, &v, sizeof(v));
}

void gsp_export__fb_ref_to(struct gsp_fb *fb, unsigned slot, gsp_fb_ref ref)
{
    if (!ref)
        return;
    pad(fb, sizeof(ref), sizeof(ref));
    uint32_t distance = (uint32_t)fb->used + (uint32_t)sizeof(distance) - ref;
    put_field(fb, slot, &distance, sizeof(distance));
}

/* A table begins with its distance to its vtable, which directly precedes it. */
gsp_fb_ref gsp_export__fb_end(struct gsp_fb *fb)
{
    uint16_t vtable[GSP_FB_SLOTS_MAX + 2] = {0};
    size_t vtable_bytes = (fb->slot_count + 2U) * sizeof(vtable[0]);
    pad(fb, sizeof(uint32_t), sizeof(uint32_t));
    put_u32(fb, (uint32_t)vtable_bytes);
    gsp_fb_ref table = here(fb);
    vtable[0] = (uint16_t)vtable_bytes;
    vtable[1] = (uint16_t)(table - fb->table_start);
    for (unsigned i = 0; i < fb->slot_count; i++)
        vtable[i + 2] = (uint16_t)(fb->slots[i] ? table - fb->slots[i] : 0);
    put(fb, vtable, vtable_bytes);
    return fb->failed ? 0 : table;
}

struct gsp_sv gsp_export__fb_finish(struct gsp_fb *fb, gsp_fb_ref root)
{
    pad(fb, sizeof(uint32_t), sizeof(uint64_t));
    put_ref(fb, root);
    if (fb->failed)
        return (struct gsp_sv){NULL, 0};
    return (struct gsp_sv){(const char *)fb->bytes + fb->cap - fb->used, fb->used};
}
