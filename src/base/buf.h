/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h -- a growable byte buffer, the output of every writer.
 *
 * A failed allocation sets buf->failed. Further writes then do nothing, so a writer can check
 * once at its end.
 * Threads: one owner.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

struct gsp_buf {
    char *p; /* not NUL-terminated unless gsp_buf_cstr() was called */
    size_t len;
    size_t cap;
    bool failed;
};

void gsp_buf_free(struct gsp_buf *buf);  /* NULL and {0} do nothing; leaves {0} */
void gsp_buf_clear(struct gsp_buf *buf); /* keeps the memory */

/* Returns space for n more bytes at buf->p + buf->len, or NULL if memory runs out. */
char *gsp_buf_reserve(struct gsp_buf *buf, size_t n);

void gsp_buf_put(struct gsp_buf *buf, const void *bytes, size_t n);
void gsp_buf_putc(struct gsp_buf *buf, char c);
void gsp_buf_puts(struct gsp_buf *buf, const char *text);
void gsp_buf_putsv(struct gsp_buf *buf, struct gsp_sv text);
void gsp_buf_printf(struct gsp_buf *buf, const char *fmt, ...) GSP_PRINTF(2, 3);
void gsp_buf_putu64(struct gsp_buf *buf, uint64_t v); /* decimal digits */

/* LEB128, as in protobuf and .gsp files. */
void gsp_buf_varint(struct gsp_buf *buf, uint64_t v);

/* Maps signed numbers of small magnitude to small unsigned numbers, for use with varints. */
static inline uint64_t gsp_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static inline int64_t gsp_unzigzag(uint64_t v)
{
    return (int64_t)((v >> 1) ^ (0 - (v & 1)));
}

/* Appends escaped XML text. Control characters and invalid UTF-8 become U+FFFD. */
void gsp_buf_xml(struct gsp_buf *buf, struct gsp_sv text);

/* Appends one line for a terminal. Control characters and invalid UTF-8 become \xNN. */
void gsp_buf_term(struct gsp_buf *buf, struct gsp_sv text);
/* Appends a document for a terminal. Control characters except newlines and tabs become \uXXXX,
 * which JSON reads back, and invalid UTF-8 becomes \xNN. With colors, sequences that set colours
 * are kept. */
void gsp_buf_term_lines(struct gsp_buf *buf, struct gsp_sv text, bool colors);

/* Returns the content, NUL-terminated, or NULL if an allocation failed. Borrowed. */
const char *gsp_buf_cstr(struct gsp_buf *buf);
/* Returns the content, NUL-terminated, which the caller frees, or NULL if an allocation failed. The
 * buffer is empty then. */
char *gsp_buf_take(struct gsp_buf *buf);

/* The text of a buffer without memory: empty. A buffer to which it is appended fails too. */
extern const char gsp_buf_lost[1];

static inline struct gsp_sv gsp_buf_sv(const struct gsp_buf *buf)
{
    return buf->failed ? (struct gsp_sv){gsp_buf_lost, 0} : (struct gsp_sv){buf->p, buf->len};
}

/* Bytes to read from front to back. The getters return false at the end. */
struct gsp_cursor {
    const unsigned char *p;
    const unsigned char *end;
};

bool gsp_cursor_varint(struct gsp_cursor *cur, uint64_t *out);
bool gsp_cursor_bytes(struct gsp_cursor *cur, size_t n, struct gsp_sv *out); /* borrowed */

#define gsp_auto_buf __attribute__((cleanup(gsp_buf_free))) struct gsp_buf

/* Appends a word as a shell reads it back. Nothing in it can harm a terminal. */
void gsp_buf_shell(struct gsp_buf *buf, struct gsp_sv word);
