/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW      ((size_t)256 << 10)
#define NUMBER_MAX  400U
/* The largest power of ten and the bound of integers that a double represents exactly. */
#define EXACT_POW   22
#define EXACT_WHOLE (UINT64_C(1) << 53)
#define DIGITS_MAX  19

/* Which tokens may follow. */
enum expected {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* after [ */
    EXPECT_KEY_OR_END,   /* after { */
    EXPECT_KEY,          /* after a comma in an object */
    EXPECT_COMMA_OR_END,
    EXPECT_NOTHING,
};

int64_t gsp_json_scan_read_fd(void *ctx, char *out, size_t n, struct gsp_err *err)
{
    const int *fd = ctx;
    ssize_t got = 0;
    do {
        got = read(*fd, out, n);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read: %s", strerror(errno));
    return got;
}

int64_t gsp_json_scan_read_text(void *ctx, char *out, size_t n, struct gsp_err *err)
{
    struct gsp_sv *rest = ctx;
    (void)err;
    n = n < rest->len ? n : rest->len;
    if (n) {
        memcpy(out, rest->p, n);
        *rest = (struct gsp_sv){rest->p + n, rest->len - n};
    }
    return (int64_t)n;
}

int gsp_json_scan_open(struct gsp_json_scan *scan, gsp_json_scan_reader read, void *ctx,
                       struct gsp_err *err)
{
    *scan =
        (struct gsp_json_scan){.read = read, .ctx = ctx, .cap = WINDOW, .expected = EXPECT_VALUE};
    scan->bytes = malloc(WINDOW + 1);
    if (!scan->bytes)
        return gsp_err_nomem(err);
    scan->bytes[0] = '\0';
    return GSP_OK;
}

void gsp_json_scan_close(struct gsp_json_scan *scan)
{
    free(scan->bytes);
    gsp_buf_free(&scan->unescaped);
    *scan = (struct gsp_json_scan){0};
}

static int malformed(const struct gsp_json_scan *scan, const char *what, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_FORMAT, 0, "not JSON: %s at byte %llu", what,
                       (unsigned long long)(scan->base + scan->at));
}

static int grow_buffer(struct gsp_json_scan *scan, struct gsp_err *err)
{
    if (scan->cap >= GSP_JSON_SCAN_TOKEN_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "string longer than %zu bytes at byte %llu",
                           GSP_JSON_SCAN_TOKEN_MAX, (unsigned long long)scan->base);
    char *more = realloc(scan->bytes, scan->cap * 2 + 1);
    if (!more)
        return gsp_err_nomem(err);
    scan->bytes = more;
    scan->cap *= 2;
    return GSP_OK;
}

/* Moves the unread bytes to the start of the buffer and reads more behind them. Returns 1 if it
 * read any, 0 at the end. */
static int fill(struct gsp_json_scan *scan, struct gsp_err *err)
{
    if (scan->at_end)
        return 0;
    size_t kept = scan->end - scan->at;
    memmove(scan->bytes, scan->bytes + scan->at, kept);
    scan->base += scan->at;
    scan->at = 0;
    scan->end = kept;
    if (kept == scan->cap) {
        int rc = grow_buffer(scan, err);
        if (rc < 0)
            return rc;
    }
    int64_t n = scan->read(scan->ctx, scan->bytes + kept, scan->cap - kept, err);
    if (n < 0)
        return (int)n;
    scan->end += (size_t)n;
    scan->bytes[scan->end] = '\0';
    scan->at_end = n == 0;
    return n > 0;
}

/* Returns the next byte that is not white space, without consuming it; 0 at the end. */
static int peek(struct gsp_json_scan *scan, struct gsp_err *err)
{
    for (;;) {
        while (scan->at < scan->end) {
            char c = scan->bytes[scan->at];
            if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
                return (unsigned char)c ? (unsigned char)c : 1; /* both NUL and 1 are invalid */
            scan->at++;
        }
        int rc = fill(scan, err);
        if (rc <= 0)
            return rc;
    }
}

static int hex4(const char *p, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        unsigned low = c | 0x20U;
        if (c >= '0' && c <= '9')
            *out = *out * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            *out = *out * 16 + (low - 'a' + 10);
        else
            return GSP_E_FORMAT;
    }
    return GSP_OK;
}

static void put_utf8(struct gsp_buf *out, unsigned c)
{
    if (c < 0x80) {
        gsp_buf_putc(out, (char)c);
        return;
    }
    if (c < 0x800) {
        gsp_buf_putc(out, (char)(0xc0 | (c >> 6)));
    } else {
        if (c < 0x10000) {
            gsp_buf_putc(out, (char)(0xe0 | (c >> 12)));
        } else {
            gsp_buf_putc(out, (char)(0xf0 | (c >> 18)));
            gsp_buf_putc(out, (char)(0x80 | ((c >> 12) & 0x3f)));
        }
        gsp_buf_putc(out, (char)(0x80 | ((c >> 6) & 0x3f)));
    }
    gsp_buf_putc(out, (char)(0x80 | (c & 0x3f)));
}

/* Decodes the \uXXXX at raw[i], possibly a surrogate pair. Returns the number of bytes consumed
 * after the backslash, 0 if it is malformed. */
static size_t put_unicode(struct gsp_buf *out, struct gsp_sv raw, size_t i)
{
    unsigned high = 0;
    unsigned low = 0;
    if (raw.len - i < 6 || hex4(raw.p + i + 2, &high) < 0)
        return 0;
    if (high >= 0xd800 && high < 0xdc00 && raw.len - i >= 12 && raw.p[i + 6] == '\\' &&
        raw.p[i + 7] == 'u' && hex4(raw.p + i + 8, &low) == GSP_OK && low >= 0xdc00 &&
        low < 0xe000) {
        put_utf8(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        return 11;
    }
    /* An unpaired surrogate is not a character. */
    put_utf8(out, high >= 0xd800 && high < 0xe000 ? 0xfffd : high);
    return 5;
}

static int unescape(struct gsp_json_scan *scan, struct gsp_sv raw, struct gsp_err *err)
{
    static const char FROM[] = "\"\\/bfnrt";
    static const char TO[] = "\"\\/\b\f\n\r\t";
    struct gsp_buf *out = &scan->unescaped;
    gsp_buf_clear(out);
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.p[i] != '\\') {
            gsp_buf_putc(out, raw.p[i]);
            continue;
        }
        /* The quote that ends the string is not escaped, so a byte follows. */
        char c = raw.p[i + 1];
        const char *found = c ? strchr(FROM, c) : NULL;
        size_t used = found ? 1 : 0;
        if (found)
            gsp_buf_putc(out, TO[found - FROM]);
        else if (c == 'u')
            used = put_unicode(out, raw, i);
        if (!used)
            return malformed(scan, "unknown escape", err);
        i += used;
    }
    if (out->failed)
        return gsp_err_nomem(err);
    scan->text = gsp_buf_sv(out);
    return GSP_OK;
}

/* Reads the string whose opening quote is the next byte. */
static int read_string(struct gsp_json_scan *scan, struct gsp_err *err)
{
    bool escaped = false;
    size_t len = 1; /* from `at` on */
    for (;;) {
        const char *p = scan->bytes + scan->at;
        size_t have = scan->end - scan->at;
        while (len < have && p[len] != '"') {
            if ((unsigned char)p[len] < ' ')
                return malformed(scan, "control character in a string", err);
            escaped = escaped || p[len] == '\\';
            len += p[len] == '\\' ? 2 : 1;
        }
        if (len < have)
            break;
        int rc = fill(scan, err);
        if (rc <= 0)
            return rc < 0 ? rc : malformed(scan, "unterminated string", err);
    }
    struct gsp_sv raw = {scan->bytes + scan->at + 1, len - 1};
    int rc = GSP_OK;
    if (escaped)
        rc = unescape(scan, raw, err);
    else
        scan->text = raw;
    scan->at += len + 1;
    return rc;
}

/* Whether the text is empty or an exponent: e, an optional sign and digits. */
static bool is_exponent(const char *p, size_t len)
{
    if (len == 0)
        return true;
    if ((p[0] | 0x20) != 'e')
        return false;
    size_t i = 1;
    i += i < len && (p[i] == '+' || p[i] == '-');
    size_t from = i;
    while (i < len && p[i] >= '0' && p[i] <= '9')
        i++;
    return i > from && i == len;
}

/* Returns false if the text is not a JSON number. */
static bool parse_number(const char *p, size_t len, double *out)
{
    static const double POWERS[EXACT_POW + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    size_t i = p[0] == '-';
    uint64_t whole = 0;
    size_t first = i;
    for (; i < len && p[i] >= '0' && p[i] <= '9'; i++)
        whole = whole * 10 + (unsigned)(p[i] - '0');
    size_t digits = i - first;
    if (digits == 0 || (digits > 1 && p[first] == '0'))
        return false;
    size_t decimals = 0;
    if (i < len && p[i] == '.') {
        for (i++; i < len && p[i] >= '0' && p[i] <= '9'; i++, decimals++)
            whole = whole * 10 + (unsigned)(p[i] - '0');
        if (decimals == 0)
            return false;
    }
    if (i == len && digits + decimals < DIGITS_MAX && whole < EXACT_WHOLE &&
        decimals <= EXACT_POW) {
        /* Both operands are exact, so the quotient is rounded only once. */
        *out = (double)whole / POWERS[decimals];
        *out = first ? -*out : *out;
        return true;
    }
    if (!is_exponent(p + i, len - i))
        return false;
    char copy[NUMBER_MAX + 1];
    memcpy(copy, p, len);
    copy[len] = '\0';
    *out = strtod(copy, NULL);
    return true;
}

static bool is_number_char(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static int read_number(struct gsp_json_scan *scan, struct gsp_err *err)
{
    size_t len = 0;
    for (;;) {
        while (scan->at + len < scan->end && is_number_char(scan->bytes[scan->at + len]))
            len++;
        if (scan->at + len < scan->end || len > NUMBER_MAX)
            break;
        int rc = fill(scan, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
    }
    if (len > NUMBER_MAX || !parse_number(scan->bytes + scan->at, len, &scan->number))
        return malformed(scan, "invalid number", err);
    scan->text = (struct gsp_sv){scan->bytes + scan->at, len};
    scan->at += len;
    scan->kind = GSP_JSON_SCAN_NUMBER;
    return GSP_OK;
}

static int read_word(struct gsp_json_scan *scan, const char *word, enum gsp_json_scan_kind kind,
                     struct gsp_err *err)
{
    size_t len = strlen(word);
    while (scan->end - scan->at < len) {
        int rc = fill(scan, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
    }
    if (scan->end - scan->at < len || memcmp(scan->bytes + scan->at, word, len) != 0)
        return malformed(scan, "invalid value", err);
    scan->at += len;
    scan->truth = word[0] == 't';
    scan->kind = kind;
    return GSP_OK;
}

static int open_level(struct gsp_json_scan *scan, bool is_object, struct gsp_err *err)
{
    if (scan->depth == GSP_JSON_SCAN_DEPTH_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "JSON nested deeper than %u",
                           GSP_JSON_SCAN_DEPTH_MAX);
    scan->is_object[scan->depth++] = is_object;
    scan->at++;
    scan->expected = is_object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    scan->kind = is_object ? GSP_JSON_SCAN_OBJ_BEGIN : GSP_JSON_SCAN_ARR_BEGIN;
    return GSP_OK;
}

static int close_level(struct gsp_json_scan *scan)
{
    scan->depth--;
    scan->at++;
    scan->expected = scan->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
    scan->kind = scan->is_object[scan->depth] ? GSP_JSON_SCAN_OBJ_END : GSP_JSON_SCAN_ARR_END;
    return GSP_OK;
}

static int read_value(struct gsp_json_scan *scan, int c, struct gsp_err *err)
{
    if (c == '{' || c == '[')
        return open_level(scan, c == '{', err);
    scan->expected = scan->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
    switch (c) {
    case '"':
        scan->kind = GSP_JSON_SCAN_STRING;
        return read_string(scan, err);
    case 't':
        return read_word(scan, "true", GSP_JSON_SCAN_BOOL, err);
    case 'f':
        return read_word(scan, "false", GSP_JSON_SCAN_BOOL, err);
    case 'n':
        return read_word(scan, "null", GSP_JSON_SCAN_NULL, err);
    default:
        return read_number(scan, err);
    }
}

static int read_key(struct gsp_json_scan *scan, int c, struct gsp_err *err)
{
    if (c != '"')
        return malformed(scan, "missing key", err);
    int rc = read_string(scan, err);
    if (rc < 0)
        return rc;
    /* Reading on to the colon may move the buffer that holds the key. */
    if (scan->at == scan->end && scan->text.p != scan->unescaped.p) {
        gsp_buf_clear(&scan->unescaped);
        gsp_buf_putsv(&scan->unescaped, scan->text);
        scan->text = gsp_buf_sv(&scan->unescaped);
    }
    if (scan->at < scan->end && scan->bytes[scan->at] == ':') {
        scan->at++;
    } else {
        gsp_auto_buf name = {0};
        gsp_buf_putsv(&name, scan->text);
        int colon = peek(scan, err);
        if (colon < 0)
            return colon;
        if (colon != ':')
            return malformed(scan, "missing colon", err);
        scan->at++;
        gsp_buf_clear(&scan->unescaped);
        gsp_buf_putsv(&scan->unescaped, gsp_buf_sv(&name));
        scan->text = gsp_buf_sv(&scan->unescaped);
    }
    scan->expected = EXPECT_VALUE;
    scan->kind = GSP_JSON_SCAN_KEY;
    return scan->unescaped.failed ? gsp_err_nomem(err) : GSP_OK;
}

int gsp_json_scan_next(struct gsp_json_scan *scan, struct gsp_err *err)
{
    int c = peek(scan, err);
    if (c < 0)
        return c;
    if (c == 0) {
        scan->kind = GSP_JSON_SCAN_END;
        return scan->expected == EXPECT_NOTHING ? GSP_OK : malformed(scan, "unexpected end", err);
    }
    if (scan->expected == EXPECT_NOTHING)
        return malformed(scan, "data after the end", err);
    bool in_object = scan->depth && scan->is_object[scan->depth - 1];
    bool ends = scan->depth && c == (in_object ? '}' : ']');
    if (ends && scan->expected != EXPECT_VALUE && scan->expected != EXPECT_KEY)
        return close_level(scan);
    if (scan->expected == EXPECT_COMMA_OR_END) {
        if (c != ',')
            return malformed(scan, in_object ? "missing comma or }" : "missing comma or ]", err);
        scan->at++;
        scan->expected = in_object ? EXPECT_KEY : EXPECT_VALUE;
        c = peek(scan, err);
        if (c <= 0)
            return c < 0 ? c : malformed(scan, "unexpected end", err);
    }
    if (scan->expected == EXPECT_KEY || scan->expected == EXPECT_KEY_OR_END)
        return read_key(scan, c, err);
    return read_value(scan, c, err);
}

int gsp_json_scan_skip(struct gsp_json_scan *scan, struct gsp_err *err)
{
    int rc = GSP_OK;
    if (scan->kind == GSP_JSON_SCAN_KEY)
        rc = gsp_json_scan_next(scan, err);
    if (rc < 0 || (scan->kind != GSP_JSON_SCAN_OBJ_BEGIN && scan->kind != GSP_JSON_SCAN_ARR_BEGIN))
        return rc;
    unsigned depth = scan->depth;
    while (rc == GSP_OK && scan->depth >= depth)
        rc = gsp_json_scan_next(scan, err);
    return rc;
}

static void put_token(const struct gsp_json_scan *scan, struct gsp_json *out)
{
    switch (scan->kind) {
    case GSP_JSON_SCAN_OBJ_BEGIN:
        gsp_json_obj_begin(out);
        break;
    case GSP_JSON_SCAN_OBJ_END:
        gsp_json_obj_end(out);
        break;
    case GSP_JSON_SCAN_ARR_BEGIN:
        gsp_json_arr_begin(out);
        break;
    case GSP_JSON_SCAN_ARR_END:
        gsp_json_arr_end(out);
        break;
    case GSP_JSON_SCAN_KEY:
        gsp_json_keysv(out, scan->text);
        break;
    case GSP_JSON_SCAN_STRING:
        gsp_json_sv(out, scan->text);
        break;
    case GSP_JSON_SCAN_NUMBER:
        gsp_json_f64(out, scan->number);
        break;
    case GSP_JSON_SCAN_BOOL:
        gsp_json_bool(out, scan->truth);
        break;
    case GSP_JSON_SCAN_NULL:
    case GSP_JSON_SCAN_END:
        gsp_json_null(out);
        break;
    }
}

int gsp_json_scan_copy(struct gsp_json_scan *scan, struct gsp_json *out, struct gsp_err *err)
{
    unsigned depth = scan->depth;
    bool is_nested = scan->kind == GSP_JSON_SCAN_OBJ_BEGIN || scan->kind == GSP_JSON_SCAN_ARR_BEGIN;
    put_token(scan, out);
    int rc = GSP_OK;
    while (rc == GSP_OK && is_nested && scan->depth >= depth) {
        /* The writer supports fewer levels. */
        if (out->depth + 1 >= GSP_JSON_DEPTH_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "JSON nested deeper than %d",
                               GSP_JSON_DEPTH_MAX);
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK)
            put_token(scan, out);
    }
    return rc;
}
