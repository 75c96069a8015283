/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DISTANCE_MAX 64

char *gsp_sv_dup(struct gsp_sv text)
{
    char *copy = malloc(text.len + 1);
    if (!copy)
        return NULL;
    if (text.len)
        memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    return copy;
}

bool gsp_sv_starts(struct gsp_sv text, const char *prefix)
{
    size_t len = strlen(prefix);
    return len <= text.len && (len == 0 || memcmp(text.p, prefix, len) == 0);
}

bool gsp_sv_ends(struct gsp_sv text, const char *suffix)
{
    size_t len = strlen(suffix);
    return len <= text.len && (len == 0 || memcmp(text.p + text.len - len, suffix, len) == 0);
}

struct gsp_sv gsp_sv_basename(struct gsp_sv path)
{
    size_t start = path.len;
    while (start > 0 && path.p[start - 1] != '/')
        start--;
    return start ? (struct gsp_sv){path.p + start, path.len - start} : path;
}

bool gsp_sv_split(struct gsp_sv *rest, char sep, struct gsp_sv *part)
{
    if (!rest->p)
        return false;
    const char *end = rest->len ? memchr(rest->p, sep, rest->len) : NULL;
    if (!end) {
        *part = *rest;
        *rest = (struct gsp_sv){NULL, 0};
        return true;
    }
    size_t len = (size_t)(end - rest->p);
    *part = (struct gsp_sv){rest->p, len};
    *rest = (struct gsp_sv){end + 1, rest->len - len - 1};
    return true;
}

size_t gsp_utf8_len(struct gsp_sv text)
{
    if (text.len == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)text.p;
    if (p[0] < 0x80)
        return 1;
    /* The range of the second byte excludes overlong forms, surrogates and code points above
     * U+10FFFF (Unicode, table 3-7). */
    size_t len = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (len == 0 || len > text.len)
        return 0;
    unsigned low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0u) != 0x80)
            return 0;
    return len;
}

uint32_t gsp_utf8_decode(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    static const unsigned char LEAD_MASK[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = p[0] & LEAD_MASK[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3fu);
    return c;
}

bool gsp_is_term_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

int gsp_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out, struct gsp_err *err)
{
    /* strtoll would skip leading blanks. */
    bool starts = (text[0] >= '0' && text[0] <= '9') || text[0] == '-' || text[0] == '+';
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!starts || end == text || *end)
        return gsp_err_set(err, GSP_E_USAGE, 0, "not a whole number: '%.60s'", text);
    if (errno == ERANGE || v < min || v > max)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.60s is not between %lld and %lld", text,
                           (long long)min, (long long)max);
    *out = v;
    return 0;
}

/* Parses a decimal number at the start of text. Returns its end, or NULL if text does not start
 * with a number. strtod alone would also accept blanks, hexadecimal, "inf" and "nan". */
static const char *scan_f64(const char *text, double *out)
{
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    if (strspn(digits, "0123456789.") == 0 || digits[1] == 'x' || digits[1] == 'X')
        return NULL;
    char *end = NULL;
    *out = strtod(text, &end);
    return end == text || !isfinite(*out) ? NULL : end;
}

int gsp_parse_f64(const char *text, double min, double max, double *out, struct gsp_err *err)
{
    double v;
    const char *end = scan_f64(text, &v);
    if (!end || *end)
        return gsp_err_set(err, GSP_E_USAGE, 0, "not a number: '%.60s'", text);
    if (v < min || v > max)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.60s is not between %.10g and %.10g", text, min,
                           max);
    *out = v;
    return 0;
}

int gsp_parse_duration(const char *text, int64_t *out_ns, struct gsp_err *err)
{
    static const struct {
        const char *unit;
        double scale;
    } UNITS[] = {
        {"", 1e9},   {"s", 1e9},    {"ms", 1e6},   {"us", 1e3},    {"ns", 1},
        {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12}, {"d", 8.64e13},
    };
    double v;
    const char *end = scan_f64(text, &v);
    for (size_t i = 0; end && i < GSP_COUNT(UNITS); i++) {
        if (strcmp(end, UNITS[i].unit) != 0)
            continue;
        double ns = v * UNITS[i].scale;
        /* Ten thousand days can be added to any clock value without overflow. */
        if (ns < 0 || ns > 1e4 * 8.64e13)
            return gsp_err_set(err, GSP_E_USAGE, 0, "duration out of range: '%.60s'", text);
        *out_ns = (int64_t)(ns + 0.5);
        return 0;
    }
    return gsp_err_set(err, GSP_E_USAGE, 0, "not a duration: '%.60s'", text);
}

/* Returns the shift for a size suffix, or -1 if it is invalid. K, KB and KiB are the same. */
static int size_shift(const char *suffix)
{
    static const char LETTERS[] = "KMGTP";
    if (*suffix == '\0' || strcmp(suffix, "B") == 0)
        return 0;
    char c = *suffix >= 'a' && *suffix <= 'z' ? (char)(*suffix - 'a' + 'A') : *suffix;
    const char *at = strchr(LETTERS, c);
    const char *tail = suffix + 1;
    if (!at || (*tail && strcmp(tail, "B") != 0 && strcmp(tail, "iB") != 0))
        return -1;
    return 10 * (int)(at - LETTERS + 1);
}

int gsp_parse_size(const char *text, uint64_t *out_bytes, struct gsp_err *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    int shift = text[0] >= '0' && text[0] <= '9' ? size_shift(end) : -1;
    if (shift < 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "not a size: '%.60s'", text);
    if (errno == ERANGE || v > UINT64_MAX >> shift)
        return gsp_err_set(err, GSP_E_USAGE, 0, "size out of range: '%.60s'", text);
    *out_bytes = (uint64_t)v << shift;
    return 0;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

size_t gsp_str_distance(const char *a, const char *b)
{
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    /* Words of this length do not occur: report the largest distance unless they are equal. */
    if (a_len > DISTANCE_MAX || b_len > DISTANCE_MAX)
        return strcmp(a, b) == 0 ? 0 : a_len > b_len ? a_len : b_len;

    /* Optimal string alignment over the last three rows of the table. */
    size_t rows[3][DISTANCE_MAX + 1];
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3];
        const size_t *prev = rows[(i + 2) % 3];
        const size_t *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            now[j] = min3(prev[j] + 1, now[j - 1] + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min3(now[j], before[j - 2] + 1, now[j]);
        }
    }
    return rows[a_len % 3][b_len];
}
