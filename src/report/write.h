/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.h -- a report document as HTML, JSON, CSV, Markdown or text.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "report/document.h"

/* Maximum number of points per series. Longer series keep the lowest and the highest value of each
 * time interval. */
#define GSP_DIGEST_POINTS_MAX 20000U
/* Maximum number of points in all series, if each keeps at least GSP_DIGEST_POINTS_MIN. */
#define GSP_DIGEST_POINTS_ALL 500000U
#define GSP_DIGEST_POINTS_MIN 2000U
/* Maximum number of steps and of spans; of more, the longest of each time interval are kept. */
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
    enum gsp_digest_table table; /* for CSV */
    const char *name;            /* name for errors; NULL: "it" */
    size_t limit;                /* rows of a table; 0: all in CSV, 20 in text and Markdown */
    unsigned width;              /* columns of text; 0: 80 */
};

/* Appends the document in a format. opts may be NULL. Fails with EMPTY (CSV of a table without
 * rows) or NOMEM. */
GSP_MUST_CHECK int gsp_digest_write(const struct gsp_digest *digest, enum gsp_digest_format format,
                                    const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                                    struct gsp_err *err);

/* Write the members of a chart except "series", and one series, as in docs/formats/report.md. */
void gsp_digest_put_chart_head(struct gsp_json *json, const struct gsp_digest_chart *chart);
void gsp_digest_put_series(struct gsp_json *json, const struct gsp_digest_series *series,
                           struct gsp_sv name);
