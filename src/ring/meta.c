/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

struct parser {
    const char *p;
    const char *end;
};

static void skip_space(struct parser *in)
{
    while (in->p < in->end && (*in->p == ' ' || *in->p == '\n' || *in->p == '\r' || *in->p == '\t'))
        in->p++;
}

/* Consumes c, after optional space. Returns false if the next character is another. */
static bool parse_char(struct parser *in, char c)
{
    skip_space(in);
    if (in->p == in->end || *in->p != c)
        return false;
    in->p++;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Parses the digits of \uXXXX. gsprof escapes only control characters, so a character that is not
 * ASCII becomes a question mark. */
static bool parse_unicode(struct parser *in, char *out)
{
    unsigned v = 0;
    if (in->end - in->p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(*in->p++);
        if (digit < 0)
            return false;
        v = v * 16 + (unsigned)digit;
    }
    *out = v > 0 && v < 0x80 ? (char)v : '?';
    return true;
}

static bool parse_escape(struct parser *in, char *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (in->p == in->end)
        return false;
    const char c = *in->p++;
    if (c == 'u')
        return parse_unicode(in, out);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at)
        return false;
    *out = to[at - from];
    return true;
}

/* Truncates a string that does not fit. */
static bool parse_string(struct parser *in, char *out, size_t cap)
{
    size_t n = 0;
    if (!parse_char(in, '"'))
        return false;
    while (in->p < in->end && *in->p != '"') {
        char c = *in->p++;
        if (c == '\\' && !parse_escape(in, &c))
            return false;
        if (n + 1 < cap)
            out[n++] = c;
    }
    out[n] = '\0';
    return parse_char(in, '"');
}

/* Copies a number, true, false or null as text. */
static bool parse_word(struct parser *in, char *out, size_t cap)
{
    size_t n = 0;
    while (in->p < in->end && n + 1 < cap &&
           ((*in->p >= '0' && *in->p <= '9') || (*in->p >= 'a' && *in->p <= 'z') || *in->p == '-' ||
            *in->p == '+' || *in->p == '.' || *in->p == 'E'))
        out[n++] = *in->p++;
    out[n] = '\0';
    return n > 0;
}

static void set_member(struct gsp_ring__meta *meta, const char *key, const char *value)
{
    if (strcmp(key, "pid") == 0)
        meta->pid = (int32_t)strtol(value, NULL, 10);
    else if (strcmp(key, "owner") == 0)
        meta->owner = (uint32_t)strtoull(value, NULL, 10);
    else if (strcmp(key, "start_time") == 0)
        meta->start_time = strtoull(value, NULL, 10);
    else if (strcmp(key, "pid_ns") == 0)
        meta->pid_ns = strtoull(value, NULL, 10);
    else if (strcmp(key, "created_ns") == 0)
        meta->created_ns = strtoll(value, NULL, 10);
    else if (strcmp(key, "rank") == 0)
        meta->rank = strcmp(value, "null") == 0 ? GSP_NULL_I64 : strtoll(value, NULL, 10);
    else if (strcmp(key, "host") == 0)
        snprintf(meta->host, sizeof(meta->host), "%.63s", value);
    else if (strcmp(key, "version") == 0)
        snprintf(meta->version, sizeof(meta->version), "%.63s", value);
    else if (strcmp(key, "note") == 0)
        snprintf(meta->note, sizeof(meta->note), "%.159s", value);
    else if (strcmp(key, "cmdline") == 0)
        snprintf(meta->cmdline, sizeof(meta->cmdline), "%s", value);
}

int gsp_ring__meta_parse(struct gsp_sv text, struct gsp_ring__meta *out, struct gsp_err *err)
{
    memset(out, 0, sizeof(*out));
    out->rank = GSP_NULL_I64;
    out->owner = UINT32_MAX;
    struct parser in = {text.p, text.p + text.len};
    char key[GSP_NAME_MAX];
    char value[sizeof(out->cmdline)];
    bool ok = text.len > 0 && parse_char(&in, '{');
    for (bool first = true; ok && !parse_char(&in, '}'); first = false) {
        ok = (first || parse_char(&in, ',')) && parse_string(&in, key, sizeof(key)) &&
             parse_char(&in, ':');
        skip_space(&in);
        ok = ok && (in.p < in.end && *in.p == '"' ? parse_string(&in, value, sizeof(value))
                                                  : parse_word(&in, value, sizeof(value)));
        if (ok)
            set_member(out, key, value);
    }
    skip_space(&in);
    if (!ok || in.p != in.end) {
        return gsp_err_set(err, GSP_E_FORMAT, 0, "meta.json is not a flat JSON object: byte %zu",
                           text.len ? (size_t)(in.p - text.p) : 0);
    }
    return 0;
}

void gsp_ring__meta_write(const struct gsp_ring__meta *meta, struct gsp_buf *out)
{
    char created[32];
    snprintf(created, sizeof(created), "%" PRId64, meta->created_ns);
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", meta->pid);
    gsp_json_put_u64(&json, "start_time", meta->start_time);
    gsp_json_put_u64(&json, "pid_ns", meta->pid_ns);
    if (gsp_json_key_or_null(&json, "rank", meta->rank != GSP_NULL_I64))
        gsp_json_i64(&json, meta->rank);
    if (meta->owner != UINT32_MAX)
        gsp_json_put_u64(&json, "owner", meta->owner);
    gsp_json_put_str(&json, "host", meta->host);
    gsp_json_put_str(&json, "cmdline", meta->cmdline);
    gsp_json_put_str(&json, "version", meta->version);
    if (meta->note[0])
        gsp_json_put_str(&json, "note", meta->note);
    gsp_json_key(&json, "created_ns"); /* as text, because many JSON readers use doubles */
    gsp_json_str(&json, created);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}
