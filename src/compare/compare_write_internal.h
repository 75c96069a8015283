/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare_write_internal.h -- the writers of comparisons, one file per format.
 *
 * All append to out and set out->failed if memory runs out.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "compare/compare_write.h"

void gsp_compare__write_json(const struct gsp_compare *compare,
                             const struct gsp_compare_write_opts *opts, struct gsp_buf *out);
void gsp_compare__write_text(const struct gsp_compare *compare,
                             const struct gsp_compare_write_opts *opts, bool is_markdown,
                             struct gsp_buf *out);
GSP_MUST_CHECK int gsp_compare__write_svg(const struct gsp_compare *compare, struct gsp_out *out,
                                          struct gsp_err *err);
