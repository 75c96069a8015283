/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h -- scans text for words and numbers, front to back, without copies or locale.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

struct gsp_text_scan {
    const char *p;
    const char *end;
};

static inline struct gsp_text_scan gsp_collect__scan_of(struct gsp_sv text)
{
    return (struct gsp_text_scan){text.p, text.p ? text.p + text.len : NULL};
}

/* The next line, without its newline; false at the end. */
GSP_MUST_CHECK bool gsp_collect__scan_line(struct gsp_text_scan *text, struct gsp_text_scan *line);
/* The next word; false at the end. */
GSP_MUST_CHECK bool gsp_collect__scan_word(struct gsp_text_scan *scan, struct gsp_sv *out);
/* Skips words; false if there are fewer. */
GSP_MUST_CHECK bool gsp_collect__scan_skip(struct gsp_text_scan *scan, unsigned words);
/* Skips blanks and reads digits; false if there are none, or the number does not fit. Stops
 * after the digits. */
GSP_MUST_CHECK bool gsp_collect__scan_u64(struct gsp_text_scan *scan, uint64_t *out);
/* Reads digits with a fraction: "85.82"; no sign, no exponent. */
GSP_MUST_CHECK bool gsp_collect__scan_f64(struct gsp_text_scan *scan, double *out);
/* Skips the text if it comes next; otherwise returns false and does not move. */
GSP_MUST_CHECK bool gsp_collect__scan_text(struct gsp_text_scan *scan, const char *text);
