/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h -- words and numbers out of text, front to back, without copies or locale.
 *
 * Used by: parse.c and the sources.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

struct gsp_scan {
    const char *p;
    const char *end;
};

static inline struct gsp_scan gsp_collect__scan_of(struct gsp_sv text)
{
    return (struct gsp_scan){text.p, text.p ? text.p + text.len : NULL};
}

/* The next line, without its end; false when there is none. */
GSP_MUST_CHECK bool gsp_collect__scan_line(struct gsp_scan *text, struct gsp_scan *line);
/* The next run of bytes that are no blanks; false at the end. */
GSP_MUST_CHECK bool gsp_collect__scan_word(struct gsp_scan *scan, struct gsp_sv *out);
/* Passes over so many words; false when there are fewer. */
GSP_MUST_CHECK bool gsp_collect__scan_skip(struct gsp_scan *scan, unsigned words);
/* The digits after blanks; false when there are none, or they do not fit.  What follows the
 * digits is left. */
GSP_MUST_CHECK bool gsp_collect__scan_u64(struct gsp_scan *scan, uint64_t *out);
/* Digits with a fraction: "85.82"; no sign, no exponent. */
GSP_MUST_CHECK bool gsp_collect__scan_f64(struct gsp_scan *scan, double *out);
/* Passes over the text when it is next; false, and nothing is passed, when it is not. */
GSP_MUST_CHECK bool gsp_collect__scan_text(struct gsp_scan *scan, const char *text);
