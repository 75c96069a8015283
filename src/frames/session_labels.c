/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "frames/session_file.h"

#define DEPTH_MAX 32U

/* A reader that only says whether the text is JSON: what goes into a file as it came must be. */

static bool is_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static void skip_space(struct gsp_sv *text)
{
    while (text->len && is_of(text->p[0], " \t\r\n")) {
        text->p++;
        text->len--;
    }
}

static bool take(struct gsp_sv *text, char c)
{
    if (!text->len || text->p[0] != c)
        return false;
    text->p++;
    text->len--;
    return true;
}

static bool take_hex(struct gsp_sv *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!text->len || !is_of(text->p[0], "0123456789abcdefABCDEF"))
            return false;
        text->p++;
        text->len--;
    }
    return true;
}

static bool take_string(struct gsp_sv *text)
{
    if (!take(text, '"'))
        return false;
    while (text->len) {
        if (take(text, '"'))
            return true;
        if (take(text, '\\')) {
            if (take(text, 'u')) {
                if (!take_hex(text, 4))
                    return false;
                continue;
            }
            if (!text->len || !is_of(text->p[0], "\"\\/bfnrt"))
                return false;
        }
        size_t n = gsp_utf8_len(*text);
        if (!n || (unsigned char)text->p[0] < 0x20)
            return false;
        text->p += n;
        text->len -= n;
    }
    return false;
}

static bool take_digits(struct gsp_sv *text)
{
    size_t before = text->len;
    while (text->len && text->p[0] >= '0' && text->p[0] <= '9') {
        text->p++;
        text->len--;
    }
    return text->len < before;
}

static bool take_number(struct gsp_sv *text)
{
    take(text, '-');
    if (!take(text, '0') && !take_digits(text))
        return false;
    if (take(text, '.') && !take_digits(text))
        return false;
    if (take(text, 'e') || take(text, 'E')) {
        if (!take(text, '+'))
            take(text, '-');
        return take_digits(text);
    }
    return true;
}

static bool take_word(struct gsp_sv *text, const char *word)
{
    if (!gsp_sv_starts(*text, word))
        return false;
    text->p += strlen(word);
    text->len -= strlen(word);
    return true;
}

static bool take_value(struct gsp_sv *text, unsigned depth);

static bool take_list(struct gsp_sv *text, unsigned depth, bool is_object)
{
    char end = is_object ? '}' : ']';
    skip_space(text);
    if (take(text, end))
        return true;
    do {
        skip_space(text);
        if (is_object) {
            if (!take_string(text))
                return false;
            skip_space(text);
            if (!take(text, ':'))
                return false;
        }
        if (!take_value(text, depth))
            return false;
        skip_space(text);
    } while (take(text, ','));
    return take(text, end);
}

static bool take_value(struct gsp_sv *text, unsigned depth)
{
    skip_space(text);
    if (!text->len || depth == 0)
        return false;
    switch (text->p[0]) {
    case '{':
        return take(text, '{') && take_list(text, depth - 1, true);
    case '[':
        return take(text, '[') && take_list(text, depth - 1, false);
    case '"':
        return take_string(text);
    case 't':
        return take_word(text, "true");
    case 'f':
        return take_word(text, "false");
    case 'n':
        return take_word(text, "null");
    default:
        return take_number(text);
    }
}

bool gsp_session_labels_ok(struct gsp_sv text)
{
    skip_space(&text);
    if (!text.len || text.p[0] != '{' || !take_value(&text, DEPTH_MAX))
        return false;
    skip_space(&text);
    return text.len == 0;
}
