/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pattern.h"

#include <string.h>

/* The element before the current position. */
enum before {
    NOTHING,  /* start of an alternative, or an anchor (^, $): cannot be repeated */
    ITEM,     /* a character, a set, a group */
    REPEATED, /* an item with a repetition, which may be made lazy or possessive */
    DONE,     /* a lazy or possessive repetition */
};

struct scan {
    struct gsp_sv rest;
    int depth; /* of groups */
    enum before before;
};

static const char NOT_CLOSED[] = "a ( is not closed";

static char peek(const struct scan *scan, size_t n)
{
    return n < scan->rest.len ? scan->rest.p[n] : '\0';
}

static void skip(struct scan *scan, size_t n)
{
    n = n < scan->rest.len ? n : scan->rest.len;
    scan->rest.p += n;
    scan->rest.len -= n;
}

static const char *scan_escape(struct scan *scan)
{
    const char what = peek(scan, 1);
    if (scan->rest.len < 2)
        return "the text ends with a backslash";
    scan->before = strchr("AbBZ", what) ? NOTHING : ITEM;
    skip(scan, 2);
    return NULL;
}

static const char *scan_set(struct scan *scan)
{
    skip(scan, peek(scan, 1) == '^' ? 2 : 1);
    /* A closing bracket in the first position is a member of the set. */
    bool is_first = true;
    while (scan->rest.len > 0 && (is_first || peek(scan, 0) != ']')) {
        is_first = false;
        skip(scan, peek(scan, 0) == '\\' ? 2 : 1);
    }
    if (scan->rest.len == 0)
        return "a [ is not closed";
    skip(scan, 1);
    scan->before = ITEM;
    return NULL;
}

static const char *scan_group(struct scan *scan)
{
    scan->before = NOTHING;
    if (peek(scan, 1) != '?') {
        scan->depth++;
        skip(scan, 1);
        return NULL;
    }
    if (peek(scan, 2) == '#') {
        /* A comment, which may contain escaped brackets. The item before it may be repeated. */
        while (scan->rest.len > 0 && peek(scan, 0) != ')')
            skip(scan, peek(scan, 0) == '\\' ? 2 : 1);
        if (scan->rest.len == 0)
            return NOT_CLOSED;
        skip(scan, 1);
        scan->before = ITEM;
        return NULL;
    }
    scan->depth++;
    skip(scan, 2);
    return NULL;
}

/* Returns the length of "{2}", "{2,}", "{,3}" or "{2,3}", or 0 if the brace is literal. */
static size_t brace_length(const struct scan *scan)
{
    size_t n = 1;
    size_t digits = 0;
    for (; peek(scan, n) >= '0' && peek(scan, n) <= '9'; n++)
        digits++;
    const bool has_comma = peek(scan, n) == ',';
    for (n += has_comma; has_comma && peek(scan, n) >= '0' && peek(scan, n) <= '9'; n++)
        digits++;
    return peek(scan, n) == '}' && (digits > 0 || has_comma) ? n + 1 : 0;
}

static const char *scan_repeat(struct scan *scan, size_t len)
{
    const char what = peek(scan, 0);
    if (scan->before == NOTHING)
        return "there is nothing to repeat";
    const bool is_kind = scan->before == REPEATED && (what == '?' || what == '+');
    if (scan->before != ITEM && !is_kind)
        return "a repetition is repeated";
    scan->before = is_kind ? DONE : REPEATED;
    skip(scan, len);
    return NULL;
}

static const char *scan_one(struct scan *scan)
{
    const char what = peek(scan, 0);
    size_t len = 1;
    switch (what) {
    case '\\':
        return scan_escape(scan);
    case '[':
        return scan_set(scan);
    case '(':
        return scan_group(scan);
    case ')':
        if (scan->depth-- == 0)
            return "a ) has no (";
        scan->before = ITEM;
        break;
    case '|':
    case '^':
    case '$':
        scan->before = NOTHING;
        break;
    case '*':
    case '+':
    case '?':
        return scan_repeat(scan, 1);
    case '{':
        len = brace_length(scan);
        if (len > 0)
            return scan_repeat(scan, len);
        len = 1;
        scan->before = ITEM;
        break;
    default:
        scan->before = ITEM;
        break;
    }
    skip(scan, len);
    return NULL;
}

const char *gsp_wire__pattern_check(struct gsp_sv text)
{
    struct scan scan = {.rest = text};
    const char *fault = NULL;
    while (!fault && scan.rest.len > 0)
        fault = scan_one(&scan);
    return !fault && scan.depth > 0 ? NOT_CLOSED : fault;
}
