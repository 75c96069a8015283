/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare_write.h -- a comparison as text, Markdown, JSON, HTML or differential flame graph.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "compare/compare.h"
#include "compare/rules.h"

enum gsp_compare_format {
    GSP_COMPARE_TEXT,
    GSP_COMPARE_MARKDOWN,
    GSP_COMPARE_JSON,
    GSP_COMPARE_HTML,
    GSP_COMPARE_SVG,
};

struct gsp_compare_write_opts {
    const struct gsp_compare_rule_result *results; /* results of the rules */
    size_t result_count;
    size_t limit;   /* rows of text and Markdown tables; 0: 15 */
    unsigned width; /* columns of text; 0: unlimited */
};

/* Writes the comparison, in JSON and HTML as the document of docs/formats/report.md. The caller
 * finishes out. opts may be NULL. Fails with EMPTY (SVG without stacks) or NOMEM. */
GSP_MUST_CHECK int gsp_compare_write(const struct gsp_compare *compare,
                                     enum gsp_compare_format format,
                                     const struct gsp_compare_write_opts *opts, struct gsp_out *out,
                                     struct gsp_err *err);

/* Appends the result of a rule: "step_time > 5%: failed, +7.2 %". */
void gsp_compare_result_put(const struct gsp_compare_rule_result *result, struct gsp_buf *out);
