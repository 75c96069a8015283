/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document_write.h -- a report document as HTML, JSON, CSV, Markdown or text.
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
#define GSP_REPORT_POINTS_MAX 20000U
/* Maximum number of points in all series, if each keeps at least GSP_REPORT_POINTS_MIN. */
#define GSP_REPORT_POINTS_ALL 500000U
#define GSP_REPORT_POINTS_MIN 2000U
/* Maximum number of steps and of spans; of more, the longest of each time interval are kept. */
#define GSP_REPORT_EVENTS_MAX 200000U

enum gsp_report_format {
    GSP_REPORT_HTML,
    GSP_REPORT_JSON,
    GSP_REPORT_CSV,
    GSP_REPORT_MARKDOWN,
    GSP_REPORT_TEXT
};

enum gsp_report_csv_table {
    GSP_REPORT_CSV_FUNCTIONS,
    GSP_REPORT_CSV_MODULES,
    GSP_REPORT_CSV_STEPS,
    GSP_REPORT_CSV_METRICS,
    GSP_REPORT_CSV_SPANS
};

struct gsp_report_write_opts {
    enum gsp_report_csv_table table; /* for CSV */
    bool raw;                        /* CSV: as in struct gsp_profile_report_opts */
    const char *name;                /* name for errors; NULL: "it" */
    size_t limit;                    /* rows of a table; 0: all in CSV, 20 in text and Markdown */
    unsigned width;                  /* columns of text; 0: 80 */
};

/* Appends the document in a format. opts may be NULL. Fails with EMPTY (CSV of a table without
 * rows) or NOMEM. */
GSP_MUST_CHECK int gsp_report_write(const struct gsp_report *report, enum gsp_report_format format,
                                    const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                                    struct gsp_err *err);

/* Write the members of a chart except "series", and one series, as in docs/formats/report.md. */
void gsp_report_chart_put_head(struct gsp_json *json, const struct gsp_report_chart *chart);
void gsp_report_series_put(struct gsp_json *json, const struct gsp_report_series *series,
                           struct gsp_sv name);
