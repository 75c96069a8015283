/* SPDX-License-Identifier: Apache-2.0 */
#include "export/marshal.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

/* Flag of a type byte: later references may refer to the value. */
#define FLAG_REF   0x80U
#define DIGIT_BITS 15U
#define NO_VALUE   UINT32_MAX

static void put_u32(struct gsp_buf *out, uint32_t v)
{
    char bytes[4] = {(char)(v & 0xff), (char)(v >> 8 & 0xff), (char)(v >> 16 & 0xff),
                     (char)(v >> 24)};
    gsp_buf_put(out, bytes, sizeof(bytes));
}

void gsp_export__marshal_tuple(struct gsp_buf *out, uint32_t count)
{
    gsp_buf_putc(out, '(');
    put_u32(out, count);
}

void gsp_export__marshal_dict_begin(struct gsp_buf *out)
{
    gsp_buf_putc(out, '{');
}

void gsp_export__marshal_dict_end(struct gsp_buf *out)
{
    gsp_buf_putc(out, '0');
}

void gsp_export__marshal_int(struct gsp_buf *out, uint64_t v)
{
    if (v <= INT32_MAX) {
        gsp_buf_putc(out, 'i');
        put_u32(out, (uint32_t)v);
        return;
    }
    uint32_t digits = 0;
    for (uint64_t rest = v; rest > 0; rest >>= DIGIT_BITS)
        digits++;
    gsp_buf_putc(out, 'l');
    put_u32(out, digits);
    for (; v > 0; v >>= DIGIT_BITS) {
        gsp_buf_putc(out, (char)(v & 0xff));
        gsp_buf_putc(out, (char)(v >> 8 & 0x7f));
    }
}

void gsp_export__marshal_float(struct gsp_buf *out, double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof(bits));
    gsp_buf_putc(out, 'g');
    put_u32(out, (uint32_t)bits);
    put_u32(out, (uint32_t)(bits >> 32));
}

void gsp_export__marshal_str(struct gsp_buf *out, struct gsp_buf *scratch, struct gsp_sv text)
{
    gsp_buf_clear(scratch);
    gsp_buf_term(scratch, text);
    /* Python rejects lengths with the sign bit; no name is that long. */
    uint32_t len = scratch->len <= INT32_MAX ? (uint32_t)scratch->len : 0;
    gsp_buf_putc(out, 'u');
    put_u32(out, len);
    gsp_buf_put(out, scratch->p, len);
    out->failed = out->failed || scratch->failed;
}

struct gsp_marshal {
    struct gsp_marshal_value *values;
    size_t count;
    size_t cap;
    uint32_t *items; /* of all tuples and dicts; those of one are contiguous */
    size_t item_count;
    size_t item_cap;
    uint32_t *refs; /* values, by number of reference */
    size_t ref_count;
    size_t ref_cap;
    uint32_t *pending; /* items of the containers being read, innermost last */
    size_t pending_count;
    size_t pending_cap;
    uint32_t root;
};

struct parser {
    struct gsp_marshal *doc;
    struct gsp_cursor cur;
    size_t len;
    struct gsp_err *err;
};

static int malformed(const struct parser *p, const char *what)
{
    size_t at = p->len - (size_t)(p->cur.end - p->cur.p);
    return gsp_err_set(p->err, GSP_E_FORMAT, 0, "marshal data: %s at byte %zu", what, at);
}

static int check_limit(const struct parser *p, size_t count)
{
    if (count < GSP_MARSHAL_VALUES_MAX)
        return GSP_OK;
    return gsp_err_set(p->err, GSP_E_LIMIT, 0, "marshal data: more than %u values",
                       GSP_MARSHAL_VALUES_MAX);
}

static int append(const struct parser *p, uint32_t **array, size_t *cap, size_t *count,
                  uint32_t value)
{
    int rc = check_limit(p, *count);
    if (rc < 0)
        return rc;
    if (!gsp_array_fit(array, cap, *count + 1))
        return gsp_err_nomem(p->err);
    (*array)[(*count)++] = value;
    return GSP_OK;
}

static bool get_u8(struct parser *p, unsigned *out)
{
    if (p->cur.p == p->cur.end)
        return false;
    *out = *p->cur.p++;
    return true;
}

static bool get_u32(struct parser *p, uint32_t *out)
{
    struct gsp_sv b;
    if (!gsp_cursor_bytes(&p->cur, 4, &b))
        return false;
    const unsigned char *u = (const unsigned char *)b.p;
    *out = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    return true;
}

static int read_long(struct parser *p, struct gsp_marshal_value *v)
{
    uint32_t raw = 0;
    struct gsp_sv digits;
    if (!get_u32(p, &raw))
        return malformed(p, "a number is cut off");
    bool negative = (raw & 0x80000000U) != 0;
    uint32_t n = negative ? 0U - raw : raw;
    if (!gsp_cursor_bytes(&p->cur, (size_t)n * 2, &digits))
        return malformed(p, "a number is cut off");
    uint64_t sum = 0;
    for (uint32_t i = n; i-- > 0;) {
        uint64_t digit = (uint64_t)(unsigned char)digits.p[i * 2UL] |
                         (uint64_t)(unsigned char)digits.p[i * 2UL + 1] << 8;
        bool fits = sum <= (uint64_t)INT64_MAX >> DIGIT_BITS && digit >> DIGIT_BITS == 0;
        sum = fits ? sum << DIGIT_BITS | digit : (uint64_t)INT64_MAX;
    }
    v->type = GSP_MARSHAL_INT;
    v->integer = negative ? -(int64_t)sum : (int64_t)sum;
    return GSP_OK;
}

static int read_float(struct parser *p, struct gsp_marshal_value *v)
{
    uint32_t low = 0;
    uint32_t high = 0;
    if (!get_u32(p, &low) || !get_u32(p, &high))
        return malformed(p, "a number is cut off");
    uint64_t bits = (uint64_t)high << 32 | low;
    v->type = GSP_MARSHAL_FLOAT;
    memcpy(&v->real, &bits, sizeof(bits));
    return GSP_OK;
}

/* The format of versions 0 and 1: a length and digits. */
static int read_float_text(struct parser *p, struct gsp_marshal_value *v)
{
    unsigned n = 0;
    struct gsp_sv digits;
    char text[256];
    if (!get_u8(p, &n) || !gsp_cursor_bytes(&p->cur, n, &digits))
        return malformed(p, "a number is cut off");
    memcpy(text, digits.p, digits.len);
    text[digits.len] = '\0';
    char *end = NULL;
    v->type = GSP_MARSHAL_FLOAT;
    v->real = strtod(text, &end);
    return end == text ? malformed(p, "not a number") : GSP_OK;
}

static int read_text(struct parser *p, struct gsp_marshal_value *v, bool is_short,
                     enum gsp_marshal_type type)
{
    uint32_t n = 0;
    unsigned small = 0;
    bool ok = is_short ? get_u8(p, &small) : get_u32(p, &n);
    v->type = type;
    if (!ok || !gsp_cursor_bytes(&p->cur, is_short ? small : n, &v->text))
        return malformed(p, "a string is cut off");
    return GSP_OK;
}

static int read_value(struct parser *p, unsigned depth, uint32_t *out);

/* Moves the pending items from mark on to the list of items, as the items of value. */
static int store_items(struct parser *p, uint32_t value, size_t mark, enum gsp_marshal_type type)
{
    struct gsp_marshal *doc = p->doc;
    size_t first = doc->item_count;
    int rc = GSP_OK;
    for (size_t i = mark; rc == GSP_OK && i < doc->pending_count; i++)
        rc = append(p, &doc->items, &doc->item_cap, &doc->item_count, doc->pending[i]);
    doc->values[value].type = type;
    doc->values[value].first = first;
    doc->values[value].count = (uint32_t)(doc->pending_count - mark);
    doc->pending_count = mark;
    return rc;
}

static int read_item(struct parser *p, unsigned depth)
{
    uint32_t item = NO_VALUE;
    int rc = read_value(p, depth + 1, &item);
    if (rc == GSP_OK && item == NO_VALUE)
        rc = malformed(p, "an item is missing");
    if (rc == GSP_OK)
        rc = append(p, &p->doc->pending, &p->doc->pending_cap, &p->doc->pending_count, item);
    return rc;
}

static int read_tuple(struct parser *p, unsigned depth, bool is_short, uint32_t value)
{
    uint32_t n = 0;
    unsigned small = 0;
    if (!(is_short ? get_u8(p, &small) : get_u32(p, &n)))
        return malformed(p, "a tuple is cut off");
    n = is_short ? small : n;
    /* Every item takes at least a byte. */
    if (n > (size_t)(p->cur.end - p->cur.p))
        return malformed(p, "a tuple is longer than the file");
    size_t mark = p->doc->pending_count;
    int rc = GSP_OK;
    for (uint32_t i = 0; rc == GSP_OK && i < n; i++)
        rc = read_item(p, depth);
    return rc == GSP_OK ? store_items(p, value, mark, GSP_MARSHAL_TUPLE) : rc;
}

static int read_dict(struct parser *p, unsigned depth, uint32_t value)
{
    size_t mark = p->doc->pending_count;
    int rc = GSP_OK;
    while (rc == GSP_OK) {
        if (p->cur.p < p->cur.end && *p->cur.p == '0') {
            p->cur.p++;
            return store_items(p, value, mark, GSP_MARSHAL_DICT);
        }
        rc = read_item(p, depth);
        if (rc == GSP_OK)
            rc = read_item(p, depth);
    }
    return rc;
}

static int read_ref(struct parser *p, uint32_t *out)
{
    uint32_t n = 0;
    if (!get_u32(p, &n) || n >= p->doc->ref_count)
        return malformed(p, "a reference to an unknown value");
    *out = p->doc->refs[n];
    return GSP_OK;
}

static int read_scalar(struct parser *p, unsigned type, struct gsp_marshal_value *v)
{
    uint32_t raw = 0;
    uint32_t high = 0;
    switch (type) {
    case 'N':
    case 'T':
    case 'F':
        return GSP_OK;
    case 'i':
        v->type = GSP_MARSHAL_INT;
        if (!get_u32(p, &raw))
            return malformed(p, "a number is cut off");
        v->integer = (int32_t)raw;
        return GSP_OK;
    case 'I':
        v->type = GSP_MARSHAL_INT;
        if (!get_u32(p, &raw) || !get_u32(p, &high))
            return malformed(p, "a number is cut off");
        v->integer = (int64_t)((uint64_t)high << 32 | raw);
        return GSP_OK;
    case 'l':
        return read_long(p, v);
    case 'g':
        return read_float(p, v);
    case 'f':
        return read_float_text(p, v);
    case 'u':
    case 't':
    case 'a':
    case 'A':
        return read_text(p, v, false, GSP_MARSHAL_STR);
    case 'z':
    case 'Z':
        return read_text(p, v, true, GSP_MARSHAL_STR);
    case 's':
        return read_text(p, v, false, GSP_MARSHAL_OTHER);
    default:
        return malformed(p, "a value of an unsupported type");
    }
}

/* A reference is numbered when its value begins, so a container may contain itself. Code that
 * follows items must bound the depth. */
static int read_value(struct parser *p, unsigned depth, uint32_t *out)
{
    struct gsp_marshal *doc = p->doc;
    unsigned byte = 0;
    if (depth > GSP_MARSHAL_DEPTH_MAX)
        return malformed(p, "nested too deeply");
    if (!get_u8(p, &byte))
        return malformed(p, "the data ends too early");
    unsigned type = byte & ~FLAG_REF;
    if (type == 'r')
        return read_ref(p, out);
    int rc = check_limit(p, doc->count);
    if (rc < 0)
        return rc;
    if (!gsp_array_fit(&doc->values, &doc->cap, doc->count + 1))
        return gsp_err_nomem(p->err);
    uint32_t value = (uint32_t)doc->count++;
    doc->values[value] = (struct gsp_marshal_value){0};
    if (byte & FLAG_REF)
        rc = append(p, &doc->refs, &doc->ref_cap, &doc->ref_count, value);
    if (rc < 0)
        return rc;
    *out = value;
    if (type == '{')
        return read_dict(p, depth, value);
    if (type == '(' || type == ')' || type == '[')
        return read_tuple(p, depth, type == ')', value);
    struct gsp_marshal_value scalar = {0};
    rc = read_scalar(p, type, &scalar);
    doc->values[value] = scalar;
    return rc;
}

int gsp_export__marshal_read(struct gsp_sv bytes, struct gsp_marshal **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_marshal *doc = calloc(1, sizeof(*doc));
    if (!doc)
        return gsp_err_nomem(err);
    const unsigned char *start = (const unsigned char *)(bytes.p ? bytes.p : "");
    struct parser p = {.doc = doc, .cur = {start, start + bytes.len}, .len = bytes.len, .err = err};
    int rc = read_value(&p, 0, &doc->root);
    if (rc < 0) {
        gsp_export__marshal_free(doc);
        return rc;
    }
    *out = doc;
    return GSP_OK;
}

void gsp_export__marshal_free(struct gsp_marshal *doc)
{
    if (!doc)
        return;
    free(doc->values);
    free(doc->items);
    free(doc->refs);
    free(doc->pending);
    free(doc);
}

uint32_t gsp_export__marshal_root(const struct gsp_marshal *doc)
{
    return doc->root;
}

size_t gsp_export__marshal_count(const struct gsp_marshal *doc)
{
    return doc->count;
}

const struct gsp_marshal_value *gsp_export__marshal_at(const struct gsp_marshal *doc,
                                                       uint32_t value)
{
    return value < doc->count ? &doc->values[value] : NULL;
}

uint32_t gsp_export__marshal_item(const struct gsp_marshal *doc, uint32_t value, uint32_t i)
{
    const struct gsp_marshal_value *v = gsp_export__marshal_at(doc, value);
    bool container = v && (v->type == GSP_MARSHAL_TUPLE || v->type == GSP_MARSHAL_DICT);
    return container && i < v->count ? doc->items[v->first + i] : NO_VALUE;
}
