/* SPDX-License-Identifier: Apache-2.0 */
/*
 * str.h -- byte strings with a length, and reading numbers that people type.
 *
 * Strings of a target can hold NULs and bad UTF-8: they travel as struct gsp_sv and
 * are escaped at each exit.
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

/* A copy with a NUL after it, for the caller to free; NULL when there is no memory. */
char *gsp_sv_dup(struct gsp_sv text);

bool gsp_sv_starts(struct gsp_sv text, const char *prefix);
bool gsp_sv_ends(struct gsp_sv text, const char *suffix);

/* The part after the last '/'; the whole if there is none. */
struct gsp_sv gsp_sv_basename(struct gsp_sv path);

/* Splits off what stands before the next sep into *part and moves *rest past it.
 * False when *rest is used up (rest->p is NULL then). */
bool gsp_sv_split(struct gsp_sv *rest, char sep, struct gsp_sv *part);

/* How many bytes of text form one well-formed UTF-8 sequence at its start; 0 if none does. */
size_t gsp_utf8_len(struct gsp_sv text);

/* Whole-string number parsing with range check; fails with USAGE and names the text. */
GSP_MUST_CHECK int gsp_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out,
                                 struct gsp_err *err);
GSP_MUST_CHECK int gsp_parse_f64(const char *text, double min, double max, double *out,
                                 struct gsp_err *err);
/* "500ms", "2s", "1.5", "3m", "1h": a bare number is seconds. */
GSP_MUST_CHECK int gsp_parse_duration(const char *text, int64_t *out_ns, struct gsp_err *err);
/* "64M", "1G", "4096": powers of 1024. */
GSP_MUST_CHECK int gsp_parse_size(const char *text, uint64_t *out_bytes, struct gsp_err *err);

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b: for "did you mean". */
size_t gsp_str_distance(const char *a, const char *b);
