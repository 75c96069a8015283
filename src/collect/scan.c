/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/scan.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(struct gsp_text_scan *scan)
{
    while (scan->p < scan->end && is_blank(*scan->p))
        scan->p++;
}

bool gsp_collect__scan_line(struct gsp_text_scan *text, struct gsp_text_scan *line)
{
    if (!text->p || text->p >= text->end)
        return false;
    const char *end = memchr(text->p, '\n', (size_t)(text->end - text->p));
    *line = (struct gsp_text_scan){text->p, end ? end : text->end};
    text->p = end ? end + 1 : text->end;
    return true;
}

bool gsp_collect__scan_word(struct gsp_text_scan *scan, struct gsp_sv *out)
{
    skip_blanks(scan);
    const char *begin = scan->p;
    while (scan->p < scan->end && !is_blank(*scan->p))
        scan->p++;
    *out = (struct gsp_sv){begin, (size_t)(scan->p - begin)};
    return out->len > 0;
}

bool gsp_collect__scan_skip(struct gsp_text_scan *scan, unsigned words)
{
    struct gsp_sv word;
    while (words > 0 && gsp_collect__scan_word(scan, &word))
        words--;
    return words == 0;
}

bool gsp_collect__scan_u64(struct gsp_text_scan *scan, uint64_t *out)
{
    skip_blanks(scan);
    const char *p = scan->p;
    uint64_t value = 0;
    for (; p < scan->end && is_digit(*p); p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (p == scan->p)
        return false;
    scan->p = p;
    *out = value;
    return true;
}

bool gsp_collect__scan_f64(struct gsp_text_scan *scan, double *out)
{
    uint64_t whole = 0;
    if (!gsp_collect__scan_u64(scan, &whole))
        return false;
    double value = (double)whole;
    if (scan->p < scan->end && *scan->p == '.') {
        double place = 0.1;
        for (scan->p++; scan->p < scan->end && is_digit(*scan->p); scan->p++) {
            value += place * (double)(*scan->p - '0');
            place /= 10;
        }
    }
    *out = value;
    return true;
}

bool gsp_collect__scan_text(struct gsp_text_scan *scan, const char *text)
{
    const size_t len = strlen(text);
    if (!scan->p || (size_t)(scan->end - scan->p) < len || memcmp(scan->p, text, len) != 0)
        return false;
    scan->p += len;
    return true;
}
