/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h -- the numbers of a profile as people read them: three significant figures,
 * thousands apart, units said, losses in words.
 *
 * Used by: export/ (svg), report/, cli/.
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "model/profile.h"

/* All append to out. */
void gsp_words_count(uint64_t n, struct gsp_buf *out); /* "12,345" */
/* What a noun of so many ends in: "", or "s". */
static inline const char *gsp_words_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}
void gsp_words_pct(double pct, struct gsp_buf *out); /* "12.3", "1.23", "0.12", "<0.01"; no sign */

/* A weight in its unit: "1.50 s", "12,345 samples", "3.20 MiB". */
void gsp_words_amount(enum gsp_unit unit, int64_t weight, struct gsp_buf *out);

/* "12 stacks torn, 3 ticks late"; "none" when nothing is missing. */
void gsp_words_losses(const struct gsp_losses *losses, struct gsp_buf *out);

/* "python3 train.py", and " and 3 more processes" when there are: bytes of the target, to be
 * escaped by whoever shows them.  "unknown program" when no process is known. */
void gsp_words_command(const struct gsp_profile *profile, struct gsp_buf *out);

/* "5,998 samples in 60.0 s at 100 Hz": what of it is known. */
void gsp_words_extent(const struct gsp_profile *profile, struct gsp_buf *out);

/* The number of samples: of a profile that counts samples, the sum of its weights. */
uint64_t gsp_words_samples(const struct gsp_profile *profile);
