/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h -- numbers and names of a profile or report as text for people: three significant
 * figures, thousands separators, units, losses by cause.
 *
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "model/profile.h"

/* All append to out. */
void gsp_model_count_put(uint64_t n, struct gsp_buf *out); /* "12,345" */
/* The plural ending of a noun: "" or "s". */
static inline const char *gsp_model_plural_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}
/* "12.3", "1.23", "0.12", "<0.01"; without "%". */
void gsp_model_percent_put(double pct, struct gsp_buf *out);
void gsp_model_share_put(double part, double all, struct gsp_buf *out); /* "12.3 %" */
void gsp_model_bytes_put(double bytes, struct gsp_buf *out);            /* "1.20 GiB" */
void gsp_model_seconds_put(double s, struct gsp_buf *out);              /* "12.3 ms" */
/* A value and its unit: "12.3 %", "1.20 GiB/s", "250 W"; "-" if it is NaN. */
void gsp_model_value_put(double v, struct gsp_sv unit, struct gsp_buf *out);
/* "forward (model.py)". Not escaped. */
void gsp_model_function_put(struct gsp_sv func, struct gsp_sv file, struct gsp_buf *out);

/* A weight in its unit: "1.50 s", "12,345 samples", "3.20 MiB". */
void gsp_model_amount_put(enum gsp_unit unit, int64_t weight, struct gsp_buf *out);

/* "12 stacks torn, 3 ticks late"; "none" if nothing is missing. */
void gsp_model_losses_put(const struct gsp_losses *losses, struct gsp_buf *out);
/* The name and the count of the i-th cause ("torn", "late", ...). Returns NULL past the last. */
const char *gsp_model_loss_at(const struct gsp_losses *losses, size_t i, uint64_t *count);

/* "python3 train.py", plus " and 3 more processes" if there are more. Not escaped. "unknown
 * program" if no process is known. */
void gsp_model_command_put(const struct gsp_profile *profile, struct gsp_buf *out);

/* "5,998 samples in 60.0 s at 100 Hz", without the parts that are unknown. */
void gsp_model_extent_put(const struct gsp_profile *profile, struct gsp_buf *out);

/* The number of samples; for a profile in GSP_UNIT_COUNT, the sum of its weights. */
uint64_t gsp_model_profile_samples(const struct gsp_profile *profile);
