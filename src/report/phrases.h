/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h -- numbers and names of a digest as people read them; all append to out.
 *
 * Used by: digest/, contrast/.
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

void gsp_words_share(double part, double all, struct gsp_buf *out); /* "12.3 %" */
void gsp_words_bytes(double bytes, struct gsp_buf *out);            /* "1.20 GiB" */
void gsp_words_seconds(double s, struct gsp_buf *out);              /* "12.3 ms" */
/* "forward (model.py)": bytes of the target, to be escaped by whoever shows them. */
void gsp_words_function(struct gsp_sv func, struct gsp_sv file, struct gsp_buf *out);
/* A value in the unit of a chart: "12.3 %", "1.20 GB/s", "250 W"; "-" when it is not known. */
void gsp_words_value(double v, struct gsp_sv unit, struct gsp_buf *out);
