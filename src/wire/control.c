/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/control.h"

#include <stdio.h>
#include <string.h>

#include "wire/pattern.h"
#include "wire/ring.h"

#define PREFIX     "gsprof."
/* A write takes less than a microsecond. */
#define GET_TRIES  64
/* Maximum number of digits before and after the decimal point. */
#define DIGITS_MAX 15
#define WORDS      (GSP_CONTROL_VALUE / sizeof(uint64_t))

_Static_assert((unsigned)GSP_SET_COUNT <= GSP_CONTROL_MAX, "all settings fit in a page");
_Static_assert(offsetof(struct gsp_control, value) % sizeof(uint64_t) == 0, "values are words");

static const struct gsp_wire_setting_row ROWS[] = {
#define GSP_SETTING(id, name, type, fallback, doc) {name, fallback, doc, GSP_SETTING_##type},
#include "wire/settings.def"
#undef GSP_SETTING
};

const struct gsp_wire_setting_row *gsp_wire_setting_row(size_t i)
{
    return i < GSP_COUNT(ROWS) ? &ROWS[i] : NULL;
}

int gsp_wire_setting_row_find(struct gsp_sv name)
{
    if (gsp_sv_starts(name, PREFIX)) {
        name.p += sizeof(PREFIX) - 1;
        name.len -= sizeof(PREFIX) - 1;
    }
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++)
        if (gsp_sv_eq(name, gsp_sv_of(ROWS[i].name)))
            return (int)i;
    return -1;
}

/* ------------------------------------------------------------------------------------- values */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t count_digits(struct gsp_sv text)
{
    size_t n = 0;
    while (n < text.len && is_digit(text.p[n]))
        n++;
    return n;
}

static struct gsp_sv skip(struct gsp_sv text, size_t n)
{
    return (struct gsp_sv){text.p + n, text.len - n};
}

/* Converts at most DIGITS_MAX digits to a number. */
static int64_t parse_digits(struct gsp_sv digits)
{
    int64_t v = 0;
    for (size_t i = 0; i < digits.len; i++)
        v = v * 10 + (digits.p[i] - '0');
    return v;
}

/* Splits "0.50" into its parts. strtod() would follow the locale of the target. */
static bool split_number(struct gsp_sv text, struct gsp_sv *before, struct gsp_sv *after)
{
    *before = (struct gsp_sv){text.p, count_digits(text)};
    struct gsp_sv rest = skip(text, before->len);
    *after = (struct gsp_sv){rest.p, 0};
    if (rest.len > 0 && rest.p[0] == '.') {
        rest = skip(rest, 1);
        *after = (struct gsp_sv){rest.p, count_digits(rest)};
        rest = skip(rest, after->len);
    }
    while (before->len > 1 && before->p[0] == '0')
        *before = skip(*before, 1);
    const bool has_digits = before->len + after->len > 0;
    while (after->len > 0 && after->p[after->len - 1] == '0')
        after->len--;
    return has_digits && rest.len == 0 && before->len <= DIGITS_MAX && after->len <= DIGITS_MAX;
}

static double max_of(size_t i)
{
    switch (i) {
    case GSP_SET_torch_rate:
        return 1;
    case GSP_SET_torch_adaptive:
        return 100;
    case GSP_SET_stack_allocation:
        return 1e12;
    case GSP_SET_ring_rows:
        return GSP_RING_ROWS_LIMIT;
    default:
        return 1e9;
    }
}

static int check_number(size_t i, struct gsp_sv value, char *out, struct gsp_err *err)
{
    struct gsp_sv before;
    struct gsp_sv after;
    const bool is_whole = i == GSP_SET_ring_rows;
    if (!split_number(value, &before, &after) || (is_whole && after.len > 0)) {
        return gsp_err_set(err, GSP_E_USAGE, 0, PREFIX "%s must be a %s, not '%.*s'", ROWS[i].name,
                           is_whole ? "whole number" : "number such as 0.5",
                           (int)(value.len < 60 ? value.len : 60), value.p);
    }
    const int64_t units = parse_digits(before);
    if ((double)units > max_of(i) || ((double)units == max_of(i) && after.len > 0)) {
        return gsp_err_set(err, GSP_E_USAGE, 0, PREFIX "%s must be between 0 and %.0f",
                           ROWS[i].name, max_of(i));
    }
    snprintf(out, GSP_CONTROL_VALUE, "%lld%s%.*s", (long long)units, after.len ? "." : "",
             (int)after.len, after.p);
    return 0;
}

static int check_bool(size_t i, struct gsp_sv value, char *out, struct gsp_err *err)
{
    static const char *const WORDS_OF[2][4] = {{"off", "0", "false", "no"},
                                               {"on", "1", "true", "yes"}};
    for (size_t k = 0; k < 8; k++) {
        if (gsp_sv_eq(value, gsp_sv_of(WORDS_OF[k / 4][k % 4]))) {
            snprintf(out, GSP_CONTROL_VALUE, "%s", WORDS_OF[k / 4][0]);
            return 0;
        }
    }
    return gsp_err_set(err, GSP_E_USAGE, 0, PREFIX "%s must be on or off, not '%.*s'", ROWS[i].name,
                       (int)(value.len < 60 ? value.len : 60), value.p);
}

static bool is_whole(struct gsp_sv text)
{
    return text.len > 0 && text.len <= DIGITS_MAX && count_digits(text) == text.len;
}

/* "4:1" */
static bool is_pair(struct gsp_sv text)
{
    struct gsp_sv first;
    return gsp_sv_split(&text, ':', &first) && text.p && is_whole(first) && is_whole(text);
}

/* Returns the accepted values if the text is invalid, else NULL. */
static const char *text_fault(size_t i, struct gsp_sv value)
{
    if (i == GSP_SET_torch_modules && !gsp_sv_eq(value, gsp_sv_of("all")) &&
        !gsp_sv_eq(value, gsp_sv_of("leaf")) &&
        !(gsp_sv_starts(value, "depth:") && is_whole(skip(value, sizeof("depth:") - 1))))
        return "all, leaf, or depth:N";
    if (i == GSP_SET_torch_shadow && !gsp_sv_eq(value, gsp_sv_of("off")) && !is_pair(value))
        return "off, or N:M such as 4:1";
    return NULL;
}

static int check_text(size_t i, struct gsp_sv value, char *out, struct gsp_err *err)
{
    if (value.len >= GSP_CONTROL_VALUE) {
        return gsp_err_set(err, GSP_E_USAGE, 0, PREFIX "%s is limited to %u bytes, not %zu",
                           ROWS[i].name, GSP_CONTROL_VALUE - 1, value.len);
    }
    for (struct gsp_sv rest = value; rest.len > 0;) {
        const size_t n = gsp_utf8_len(rest);
        if (n == 0 || (unsigned char)rest.p[0] < ' ' || rest.p[0] == '\x7f') {
            return gsp_err_set(err, GSP_E_USAGE, 0, PREFIX "%s must be one line of UTF-8 text",
                               ROWS[i].name);
        }
        rest = skip(rest, n);
    }
    const char *fault = text_fault(i, value);
    if (fault)
        return gsp_err_set(err, GSP_E_USAGE, 0, PREFIX "%s must be %s", ROWS[i].name, fault);
    const bool is_pattern = i == GSP_SET_torch_layers || i == GSP_SET_stack_span;
    fault = is_pattern ? gsp_wire__pattern_check(value) : NULL;
    if (fault) {
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           PREFIX "%s must be a regular expression: in '%.*s', %s", ROWS[i].name,
                           (int)(value.len < 60 ? value.len : 60), value.p, fault);
    }
    if (value.len > 0)
        memcpy(out, value.p, value.len);
    out[value.len] = '\0';
    return 0;
}

/* Also accepts the words of a boolean: "on" means sampled. */
static int check_memory(size_t i, struct gsp_sv value, char *out, struct gsp_err *err)
{
    if (gsp_sv_eq(value, gsp_sv_of("sampled")) || gsp_sv_eq(value, gsp_sv_of("exact")))
        return check_text(i, value, out, err);
    if (check_bool(i, value, out, NULL) != 0) {
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           PREFIX "%s must be off, sampled or exact, not '%.*s'", ROWS[i].name,
                           (int)(value.len < 60 ? value.len : 60), value.p);
    }
    if (strcmp(out, "on") == 0)
        snprintf(out, GSP_CONTROL_VALUE, "sampled");
    return 0;
}

int gsp_wire_setting_row_check(size_t i, struct gsp_sv value, char out[GSP_CONTROL_VALUE],
                               struct gsp_err *err)
{
    if (i >= GSP_COUNT(ROWS))
        return gsp_err_set(err, GSP_E_USAGE, 0, "no setting has number %zu", i);
    switch (ROWS[i].type) {
    case GSP_SETTING_BOOL:
        return check_bool(i, value, out, err);
    case GSP_SETTING_NUMBER:
        return check_number(i, value, out, err);
    case GSP_SETTING_TEXT:
        break;
    }
    return i == GSP_SET_memory ? check_memory(i, value, out, err) : check_text(i, value, out, err);
}

/* --------------------------------------------------------------------------------------- page */

/* Stores atomic words, because another process may read or, against the rules, write. */
static void store_value(struct gsp_control *page, size_t id, const char *value)
{
    uint64_t words[WORDS] = {0};
    uint64_t *to = (void *)page->value[id];
    const size_t len = strnlen(value, GSP_CONTROL_VALUE - 1);
    memcpy(words, value, len);
    for (size_t i = 0; i < WORDS; i++)
        __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
}

static void load_value(const struct gsp_control *page, size_t id, char out[GSP_CONTROL_VALUE])
{
    uint64_t words[WORDS];
    const uint64_t *from = (const void *)page->value[id];
    for (size_t i = 0; i < WORDS; i++)
        words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    memcpy(out, words, GSP_CONTROL_VALUE);
    out[GSP_CONTROL_VALUE - 1] = '\0';
}

void gsp_wire_control_init(struct gsp_control *page, const char *agent_version)
{
    memcpy(page->magic, GSP_CONTROL_MAGIC, sizeof(page->magic));
    page->version = GSP_CONTROL_VERSION;
    page->count = GSP_SET_COUNT;
    snprintf(page->agent, sizeof(page->agent), "%s", agent_version);
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++)
        store_value(page, i, ROWS[i].fallback);
}

bool gsp_wire__control_is_valid(const struct gsp_control *page, size_t bytes)
{
    return bytes >= sizeof(*page) &&
           memcmp(page->magic, GSP_CONTROL_MAGIC, sizeof(page->magic)) == 0 &&
           page->version == GSP_CONTROL_VERSION && page->count <= GSP_CONTROL_MAX &&
           memchr(page->agent, '\0', sizeof(page->agent));
}

bool gsp_wire_control_get(const struct gsp_control *page, enum gsp_setting_id id,
                          char out[GSP_CONTROL_VALUE])
{
    if ((unsigned)id >= GSP_COUNT(ROWS))
        return false;
    for (int tries = 0; tries < GET_TRIES; tries++) {
        char copy[GSP_CONTROL_VALUE];
        /* Partner: the store at the end of gsp_wire_control_set(). */
        const uint64_t before = atomic_load_explicit(&page->serial, memory_order_acquire);
        load_value(page, id, copy);
        /* Partner: the first fence of gsp_wire_control_set(). */
        atomic_thread_fence(memory_order_acquire);
        if ((before & 1) == 0 &&
            before == atomic_load_explicit(&page->serial, memory_order_relaxed)) {
            memcpy(out, copy, sizeof(copy));
            return true;
        }
    }
    return false;
}

/* Repairs the page after a writer died: resets the value that it was writing or, if that is not
 * known, every invalid value. */
static void repair(struct gsp_control *page)
{
    const uint32_t at = atomic_load_explicit(&page->writing, memory_order_relaxed);
    if (at > 0 && at <= GSP_COUNT(ROWS)) {
        store_value(page, at - 1, ROWS[at - 1].fallback);
        return;
    }
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        char value[GSP_CONTROL_VALUE];
        char checked[GSP_CONTROL_VALUE];
        load_value(page, i, value);
        if (gsp_wire_setting_row_check(i, gsp_sv_of(value), checked, NULL) != 0)
            store_value(page, i, ROWS[i].fallback);
    }
}

uint64_t gsp_wire_control_set(struct gsp_control *page, enum gsp_setting_id id, const char *value)
{
    const uint64_t now = atomic_load_explicit(&page->serial, memory_order_relaxed);
    if ((unsigned)id >= GSP_COUNT(ROWS))
        return now;
    atomic_store_explicit(&page->serial, now | 1, memory_order_relaxed);
    /* A reader that sees a byte of the new value also sees the odd serial. Partner: the fence of
     * gsp_wire_control_get(). */
    atomic_thread_fence(memory_order_release);
    if (now & 1)
        repair(page);
    atomic_store_explicit(&page->writing, (uint32_t)id + 1, memory_order_relaxed);
    /* If this process dies during the store, `writing` must already name the value. */
    atomic_thread_fence(memory_order_release);
    store_value(page, id, value);
    atomic_store_explicit(&page->writing, 0, memory_order_relaxed);
    const uint64_t next = (now | 1) + 1;
    /* Partner: the first load of gsp_wire_control_get(). */
    atomic_store_explicit(&page->serial, next, memory_order_release);
    return next;
}
