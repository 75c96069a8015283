/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.h -- a digest as JSON, page, table, Markdown or text.
 *
 * Used by: cli/, contrast/ (the parts of a document that it shares).
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "report/document.h"

/* Points of one line of a chart that a document has; more are thinned out to the lowest and the
 * highest of each stretch of time. */
#define GSP_DIGEST_POINTS_MAX 20000U
/* Points of all lines together, as long as each has the least. */
#define GSP_DIGEST_POINTS_ALL 500000U
#define GSP_DIGEST_POINTS_MIN 2000U
/* Steps, and spans: the longest of each stretch of time. */
#define GSP_DIGEST_EVENTS_MAX 200000U

enum gsp_digest_format {
    GSP_DIGEST_HTML,
    GSP_DIGEST_JSON,
    GSP_DIGEST_CSV,
    GSP_DIGEST_MARKDOWN,
    GSP_DIGEST_TEXT
};

enum gsp_digest_table {
    GSP_DIGEST_FUNCTIONS,
    GSP_DIGEST_MODULES,
    GSP_DIGEST_STEPS,
    GSP_DIGEST_METRICS,
    GSP_DIGEST_SPANS
};

struct gsp_report_write_opts {
    enum gsp_digest_table table; /* of CSV */
    const char *name;            /* what an error calls the digest; NULL: "it" */
    size_t limit;                /* rows of a table; 0: all of CSV, 20 for people */
    unsigned width;              /* columns of text; 0: 80 */
};

/* Appends the digest in a format.  opts may be NULL.  Fails with EMPTY (CSV of a table that has no
 * rows) or NOMEM. */
GSP_MUST_CHECK int gsp_digest_write(const struct gsp_digest *digest, enum gsp_digest_format format,
                                    const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                                    struct gsp_err *err);

/* The members of a chart but "series", and one of those: as docs/formats/report.md has them. */
void gsp_digest_put_chart_head(struct gsp_json *json, const struct gsp_digest_chart *chart);
void gsp_digest_put_series(struct gsp_json *json, const struct gsp_digest_series *series,
                           struct gsp_sv name);
