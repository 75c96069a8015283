/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP_MIN     64
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void gsp_buf_free(struct gsp_buf *buf)
{
    if (!buf)
        return;
    free(buf->p);
    *buf = (struct gsp_buf){0};
}

void gsp_buf_clear(struct gsp_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

const char gsp_buf_lost[1] = "";

char *gsp_buf_reserve(struct gsp_buf *buf, size_t n)
{
    if (buf->failed)
        return NULL;
    if (n <= buf->cap - buf->len && buf->p)
        return buf->p + buf->len;
    size_t need = buf->len + n;
    size_t cap = buf->cap ? buf->cap : CAP_MIN;
    while (cap < need && cap <= SIZE_MAX / 2)
        cap *= 2;
    char *p = need >= n && cap >= need ? realloc(buf->p, cap) : NULL;
    if (!p) {
        buf->failed = true;
        return NULL;
    }
    buf->p = p;
    buf->cap = cap;
    return p + buf->len;
}

void gsp_buf_put(struct gsp_buf *buf, const void *bytes, size_t n)
{
    if (bytes == gsp_buf_lost)
        buf->failed = true;
    if (n == 0)
        return;
    char *p = gsp_buf_reserve(buf, n);
    if (!p)
        return;
    memcpy(p, bytes, n);
    buf->len += n;
}

void gsp_buf_putc(struct gsp_buf *buf, char c)
{
    gsp_buf_put(buf, &c, 1);
}

void gsp_buf_puts(struct gsp_buf *buf, const char *text)
{
    gsp_buf_put(buf, text, strlen(text));
}

void gsp_buf_putsv(struct gsp_buf *buf, struct gsp_sv text)
{
    gsp_buf_put(buf, text.p, text.len);
}

void gsp_buf_printf(struct gsp_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        buf->failed = true;
    } else {
        char *p = gsp_buf_reserve(buf, (size_t)n + 1);
        if (p) {
            vsnprintf(p, (size_t)n + 1, fmt, again);
            buf->len += (size_t)n;
        }
    }
    va_end(again);
}

void gsp_buf_putu64(struct gsp_buf *buf, uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    gsp_buf_put(buf, digits + at, sizeof(digits) - at);
}

void gsp_buf_varint(struct gsp_buf *buf, uint64_t v)
{
    char bytes[10];
    size_t n = 0;
    while (v >= 0x80) {
        bytes[n++] = (char)(unsigned char)(v | 0x80);
        v >>= 7;
    }
    bytes[n++] = (char)(unsigned char)v;
    gsp_buf_put(buf, bytes, n);
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

static const char *xml_entity(uint32_t c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        /* U+FFFE and U+FFFF are well-formed UTF-8, but XML does not allow them. */
        return is_control(c) || c == 0xfffe || c == 0xffff ? REPLACEMENT : NULL;
    }
}

void gsp_buf_xml(struct gsp_buf *buf, struct gsp_sv text)
{
    gsp_buf_put(buf, text.p, 0); /* fails if the text is lost */
    while (text.len) {
        size_t n = gsp_utf8_len(text);
        const char *entity = n ? xml_entity(gsp_utf8_decode(text.p, n)) : REPLACEMENT;
        n += n == 0;
        if (entity)
            gsp_buf_puts(buf, entity);
        else
            gsp_buf_put(buf, text.p, n);
        text.p += n;
        text.len -= n;
    }
}

void gsp_buf_term(struct gsp_buf *buf, struct gsp_sv text)
{
    gsp_buf_put(buf, text.p, 0); /* fails if the text is lost */
    while (text.len) {
        size_t n = gsp_utf8_len(text);
        bool plain = n && !gsp_is_term_unsafe(gsp_utf8_decode(text.p, n));
        n += n == 0;
        if (plain)
            gsp_buf_put(buf, text.p, n);
        else
            for (size_t i = 0; i < n; i++)
                gsp_buf_printf(buf, "\\x%02x", (unsigned)(unsigned char)text.p[i]);
        text.p += n;
        text.len -= n;
    }
}

/* Returns the length of a sequence at the start of text that sets colours (ESC [ 1;31 m), or 0. */
static size_t color_len(struct gsp_sv text)
{
    size_t n = 2;
    if (text.len < 3 || text.p[0] != '\033' || text.p[1] != '[')
        return 0;
    while (n < text.len && ((text.p[n] >= '0' && text.p[n] <= '9') || text.p[n] == ';'))
        n++;
    return n < text.len && text.p[n] == 'm' ? n + 1 : 0;
}

/* Returns how many bytes at the start of text a terminal may get, or 0. */
static size_t safe_len(struct gsp_sv text, bool colors)
{
    const size_t n = gsp_utf8_len(text);
    if (n &&
        (text.p[0] == '\n' || text.p[0] == '\t' || !gsp_is_term_unsafe(gsp_utf8_decode(text.p, n))))
        return n;
    return colors ? color_len(text) : 0;
}

void gsp_buf_term_lines(struct gsp_buf *buf, struct gsp_sv text, bool colors)
{
    while (text.len) {
        size_t n = safe_len(text, colors);
        if (n) {
            gsp_buf_put(buf, text.p, n);
        } else if ((n = gsp_utf8_len(text)) > 0) {
            gsp_buf_printf(buf, "\\u%04x", (unsigned)gsp_utf8_decode(text.p, n));
        } else {
            n = 1;
            gsp_buf_printf(buf, "\\x%02x", (unsigned)(unsigned char)text.p[0]);
        }
        text.p += n;
        text.len -= n;
    }
}

const char *gsp_buf_cstr(struct gsp_buf *buf)
{
    char *p = gsp_buf_reserve(buf, 1);
    if (!p)
        return NULL;
    *p = '\0';
    return buf->p;
}

char *gsp_buf_take(struct gsp_buf *buf)
{
    char *text = gsp_buf_cstr(buf) ? buf->p : NULL;
    if (text)
        *buf = (struct gsp_buf){0};
    else
        gsp_buf_free(buf);
    return text;
}

bool gsp_cursor_varint(struct gsp_cursor *cur, uint64_t *out)
{
    uint64_t v = 0;
    const unsigned char *p = cur->p;
    for (unsigned shift = 0; shift < 64 && p < cur->end; shift += 7) {
        uint64_t bits = *p & 0x7fu;
        /* The tenth byte holds only one bit. */
        if (shift == 63 && bits > 1)
            return false;
        v |= bits << shift;
        if (!(*p++ & 0x80u)) {
            cur->p = p;
            *out = v;
            return true;
        }
    }
    return false;
}

bool gsp_cursor_bytes(struct gsp_cursor *cur, size_t n, struct gsp_sv *out)
{
    if (n > (size_t)(cur->end - cur->p))
        return false;
    *out = (struct gsp_sv){(const char *)cur->p, n};
    cur->p += n;
    return true;
}

void gsp_buf_shell(struct gsp_buf *buf, struct gsp_sv word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,@%+";
    bool is_plain = word.len > 0;
    for (size_t i = 0; i < word.len; i++)
        is_plain = is_plain && word.p[i] && strchr(plain, word.p[i]);
    if (is_plain) {
        gsp_buf_putsv(buf, word);
        return;
    }
    struct gsp_buf safe = {0};
    gsp_buf_term(&safe, word);
    gsp_buf_putc(buf, '\'');
    for (size_t i = 0; i < safe.len; i++)
        if (safe.p[i] == '\'')
            gsp_buf_puts(buf, "'\\''");
        else
            gsp_buf_putc(buf, safe.p[i]);
    gsp_buf_putc(buf, '\'');
    gsp_buf_free(&safe);
}
