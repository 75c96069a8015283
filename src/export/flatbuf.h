/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatbuf.h -- writes FlatBuffers: tables, vectors and strings, from the leaves to the root.
 *
 * The bytes grow from the end to the front, as the format wants it: what a table refers to is
 * written before it, and a reference is the distance from the end.  A failed allocation is
 * remembered; gsp_fb_finish() tells it.
 *
 * Used by: the files of export/ alone.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

#define GSP_FB_SLOTS_MAX 8U

/* Where an object begins, counted from the end of the buffer; 0 is none. */
typedef uint32_t gsp_fb_ref;

struct gsp_fb {
    unsigned char *bytes; /* of cap; the last used ones are written */
    size_t cap;
    size_t used;
    size_t align;                       /* the largest any object asked for */
    gsp_fb_ref slots[GSP_FB_SLOTS_MAX]; /* of the table being written; 0: default */
    gsp_fb_ref table_start;
    unsigned slot_count;
    bool failed;
};

void gsp_fb_free(struct gsp_fb *fb); /* {0} does nothing; leaves {0} */

gsp_fb_ref gsp_fb_string(struct gsp_fb *fb, struct gsp_sv text); /* well-formed UTF-8 */
/* A vector of references to objects that are written already. */
gsp_fb_ref gsp_fb_refs(struct gsp_fb *fb, const gsp_fb_ref *refs, size_t count);
/* A vector of structs of 64-bit words. */
gsp_fb_ref gsp_fb_words(struct gsp_fb *fb, const int64_t *words, size_t words_each, size_t count);

/* One table at a time: begin, its fields in any order, end. */
void gsp_fb_begin(struct gsp_fb *fb);
void gsp_fb_u8(struct gsp_fb *fb, unsigned slot, uint8_t v);
void gsp_fb_i16(struct gsp_fb *fb, unsigned slot, int16_t v);
void gsp_fb_i32(struct gsp_fb *fb, unsigned slot, int32_t v);
void gsp_fb_i64(struct gsp_fb *fb, unsigned slot, int64_t v);
void gsp_fb_ref_to(struct gsp_fb *fb, unsigned slot, gsp_fb_ref ref);
gsp_fb_ref gsp_fb_end(struct gsp_fb *fb);

/* Puts the root's reference in front.  The bytes are borrowed until free; a whole number of
 * eight.  {NULL, 0} when there was no memory or the buffer passed 1 GB. */
struct gsp_sv gsp_fb_finish(struct gsp_fb *fb, gsp_fb_ref root);
