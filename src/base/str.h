/* SPDX-License-Identifier: Apache-2.0 */
/*
 * str.h -- byte strings with a length, and parsers for numbers that users type.
 *
 * Strings of a target can hold NULs and invalid UTF-8. They are passed as struct gsp_sv, and every
 * output escapes them.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_sv {
    const char *p; /* borrowed; not NUL-terminated */
    size_t len;
};

static inline struct gsp_sv gsp_sv_of(const char *text)
{
    return (struct gsp_sv){text, text ? strlen(text) : 0};
}

static inline bool gsp_sv_eq(struct gsp_sv a, struct gsp_sv b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* Returns a NUL-terminated copy that the caller frees, or NULL if memory runs out. */
char *gsp_sv_dup(struct gsp_sv text);

bool gsp_sv_starts(struct gsp_sv text, const char *prefix);
bool gsp_sv_ends(struct gsp_sv text, const char *suffix);

/* Returns the part after the last '/', or the whole path if it has none. */
struct gsp_sv gsp_sv_basename(struct gsp_sv path);

/* Stores the text before the next sep in *part, and advances *rest past the sep.
 * Returns false at the end; rest->p is then NULL. */
bool gsp_sv_split(struct gsp_sv *rest, char sep, struct gsp_sv *part);

/* Returns the length of the well-formed UTF-8 sequence at the start of text, or 0. */
size_t gsp_utf8_len(struct gsp_sv text);
/* Returns the code point of a well-formed sequence of len bytes. */
uint32_t gsp_utf8_decode(const char *text, size_t len);
/* Whether a terminal interprets the code point as a command, or changes the direction of text. */
bool gsp_is_term_unsafe(uint32_t c);

/* Parse the whole text as a number and check its range. Fail with USAGE; the message quotes the
 * text. */
GSP_MUST_CHECK int gsp_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out,
                                 struct gsp_err *err);
GSP_MUST_CHECK int gsp_parse_f64(const char *text, double min, double max, double *out,
                                 struct gsp_err *err);
/* "500ms", "2s", "1.5", "3m", "1h": a bare number is seconds. */
GSP_MUST_CHECK int gsp_parse_duration(const char *text, int64_t *out_ns, struct gsp_err *err);
/* "64M", "1G", "4096": powers of 1024. */
GSP_MUST_CHECK int gsp_parse_size(const char *text, uint64_t *out_bytes, struct gsp_err *err);

/* Returns the number of edits (insert, delete, replace, swap neighbours) that turn a into b. */
size_t gsp_str_distance(const char *a, const char *b);
