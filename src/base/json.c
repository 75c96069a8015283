/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define REPLACEMENT  "\xef\xbf\xbd" /* U+FFFD */
#define DECIMALS_MAX 18

void gsp_json_init(struct gsp_json *json, struct gsp_buf *out)
{
    *json = (struct gsp_json){.out = out};
}

/* Writes the comma before a key or a value, if one is necessary. */
static void separate(struct gsp_json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->has_item[json->depth])
        gsp_buf_putc(json->out, ',');
    json->has_item[json->depth] = true;
}

static void open_scope(struct gsp_json *json, char bracket)
{
    separate(json);
    gsp_buf_putc(json->out, bracket);
    gsp_assert(json->depth < GSP_JSON_DEPTH_MAX);
    if (json->depth < GSP_JSON_DEPTH_MAX)
        json->depth++;
    else
        json->out->failed = true;
    json->has_item[json->depth] = false;
}

static void close_scope(struct gsp_json *json, char bracket)
{
    gsp_assert(json->depth > 0 && !json->after_key);
    if (json->depth > 0)
        json->depth--;
    else
        json->out->failed = true;
    gsp_buf_putc(json->out, bracket);
}

void gsp_json_obj_begin(struct gsp_json *json)
{
    open_scope(json, '{');
}

void gsp_json_obj_end(struct gsp_json *json)
{
    close_scope(json, '}');
}

void gsp_json_arr_begin(struct gsp_json *json)
{
    open_scope(json, '[');
}

void gsp_json_arr_end(struct gsp_json *json)
{
    close_scope(json, ']');
}

static void put_escape(struct gsp_buf *out, uint32_t c)
{
    static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: byte, letter */
    for (size_t i = 0; i + 1 < sizeof(SHORT); i += 2) {
        if ((uint32_t)SHORT[i] == c) {
            gsp_buf_put(out, (char[2]){'\\', SHORT[i + 1]}, 2);
            return;
        }
    }
    gsp_buf_printf(out, "\\u%04x", (unsigned)c);
}

static void put_text(struct gsp_buf *out, struct gsp_sv text)
{
    gsp_buf_put(out, text.p, 0); /* fails if the text is lost */
    gsp_buf_putc(out, '"');
    size_t start = 0; /* of the bytes that need no escape */
    size_t i = 0;
    while (i < text.len) {
        unsigned char c = (unsigned char)text.p[i];
        size_t n = gsp_utf8_len((struct gsp_sv){text.p + i, text.len - i});
        if (n && c != '"' && c != '\\' && !gsp_is_term_unsafe(gsp_utf8_decode(text.p + i, n))) {
            i += n;
            continue;
        }
        gsp_buf_put(out, text.p + start, i - start);
        if (n)
            put_escape(out, gsp_utf8_decode(text.p + i, n));
        else
            gsp_buf_puts(out, REPLACEMENT);
        i += n ? n : 1;
        start = i;
    }
    if (text.len)
        gsp_buf_put(out, text.p + start, text.len - start);
    gsp_buf_putc(out, '"');
}

void gsp_json_key(struct gsp_json *json, const char *key)
{
    gsp_json_keysv(json, gsp_sv_of(key));
}

void gsp_json_keysv(struct gsp_json *json, struct gsp_sv key)
{
    separate(json);
    put_text(json->out, key);
    gsp_buf_putc(json->out, ':');
    json->after_key = true;
}

void gsp_json_sv(struct gsp_json *json, struct gsp_sv text)
{
    separate(json);
    put_text(json->out, text);
}

void gsp_json_str(struct gsp_json *json, const char *text)
{
    if (text)
        gsp_json_sv(json, gsp_sv_of(text));
    else
        gsp_json_null(json);
}

/* Returns |v|, also for INT64_MIN. */
static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

void gsp_json_i64(struct gsp_json *json, int64_t v)
{
    separate(json);
    if (v < 0)
        gsp_buf_putc(json->out, '-');
    gsp_buf_putu64(json->out, magnitude(v));
}

void gsp_json_u64(struct gsp_json *json, uint64_t v)
{
    separate(json);
    gsp_buf_putu64(json->out, v);
}

void gsp_json_f64(struct gsp_json *json, double v)
{
    if (!isfinite(v)) {
        gsp_json_null(json);
        return;
    }
    separate(json);
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    /* A host program may have set a locale with a decimal comma. */
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
    gsp_buf_puts(json->out, text);
}

void gsp_json_fixed(struct gsp_json *json, int64_t v, unsigned decimals)
{
    gsp_assert(decimals <= DECIMALS_MAX);
    uint64_t scale = 1;
    for (unsigned i = 0; i < decimals && i < DECIMALS_MAX; i++)
        scale *= 10;
    separate(json);
    if (v < 0)
        gsp_buf_putc(json->out, '-');
    gsp_buf_putu64(json->out, magnitude(v) / scale);
    if (scale == 1)
        return;
    uint64_t part = magnitude(v) % scale;
    gsp_buf_putc(json->out, '.');
    /* Write at least one digit, and stop when only zeros are left. */
    do {
        scale /= 10;
        gsp_buf_putc(json->out, (char)('0' + part / scale));
        part %= scale;
    } while (part);
}

void gsp_json_bool(struct gsp_json *json, bool v)
{
    separate(json);
    gsp_buf_puts(json->out, v ? "true" : "false");
}

void gsp_json_null(struct gsp_json *json)
{
    separate(json);
    gsp_buf_puts(json->out, "null");
}

void gsp_json_raw(struct gsp_json *json, struct gsp_sv value)
{
    separate(json);
    gsp_buf_putsv(json->out, value);
}
