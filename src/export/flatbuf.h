/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatbuf.h -- a writer of FlatBuffers: tables, vectors and strings.
 *
 * The buffer grows from its end to its front, as the format requires. Write an object before
 * the table that refers to it. A reference is a distance from the end of the buffer. A failed
 * allocation is remembered and reported by gsp_export__fb_finish().
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define GSP_FB_SLOTS_MAX 8U

/* Start of an object, as a distance from the end of the buffer; 0: no object. */
typedef uint32_t gsp_fb_ref;

struct gsp_fb {
    unsigned char *bytes; /* the last `used` bytes are written */
    size_t cap;
    size_t used;
    size_t align;                       /* the largest alignment of any object */
    gsp_fb_ref slots[GSP_FB_SLOTS_MAX]; /* fields of the table being written; 0: default */
    gsp_fb_ref table_start;
    unsigned slot_count;
    bool failed;
};

void gsp_export__fb_free(struct gsp_fb *fb); /* {0} does nothing; leaves {0} */

gsp_fb_ref gsp_export__fb_string(struct gsp_fb *fb, struct gsp_sv text); /* well-formed UTF-8 */
/* A vector of references to objects already written. */
gsp_fb_ref gsp_export__fb_refs(struct gsp_fb *fb, const gsp_fb_ref *refs, size_t count);
/* A vector of structs of 64-bit words. */
gsp_fb_ref gsp_export__fb_words(struct gsp_fb *fb, const int64_t *words, size_t words_each,
                                size_t count);

/* One table at a time: begin, its fields in any order, end. */
void gsp_export__fb_begin(struct gsp_fb *fb);
void gsp_export__fb_u8(struct gsp_fb *fb, unsigned slot, uint8_t v);
void gsp_export__fb_i16(struct gsp_fb *fb, unsigned slot, int16_t v);
void gsp_export__fb_i32(struct gsp_fb *fb, unsigned slot, int32_t v);
void gsp_export__fb_i64(struct gsp_fb *fb, unsigned slot, int64_t v);
void gsp_export__fb_ref_to(struct gsp_fb *fb, unsigned slot, gsp_fb_ref ref);
gsp_fb_ref gsp_export__fb_end(struct gsp_fb *fb);

/* Writes the reference to the root and returns the bytes, borrowed until gsp_export__fb_free().
 * Their number is a multiple of eight. Returns {NULL, 0} if memory ran out or the buffer passed 1
 * GB. */
struct gsp_sv gsp_export__fb_finish(struct gsp_fb *fb, gsp_fb_ref root);
