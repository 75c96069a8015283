/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h -- a profile as text: summary, hottest functions, call tree; for people, for
 * spreadsheets (CSV), for pages (Markdown) and for programs (JSON).
 *
 * Text for people has three significant figures and no line wider than asked; names are
 * escaped for where they go.  JSON and CSV have full numbers with their unit in the key.
 *
 * Used by: cli/.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"
#include "model/tree.h"

enum gsp_report_sort {
    GSP_REPORT_SORT_OWN,   /* what the function itself did */
    GSP_REPORT_SORT_TOTAL, /* with everything it called */
};

/* Parts of a JSON report; the summary is always there. */
#define GSP_REPORT_TOP           1U
#define GSP_REPORT_TREE          2U

#define GSP_REPORT_WIDTH_DEFAULT 80U
#define GSP_REPORT_WIDTH_MIN     60U

/* {0} is: sorted by own time, every function and frame, 80 columns. */
struct gsp_report_opts {
    enum gsp_report_sort sort;
    size_t limit;   /* rows of the table; 0 for all */
    unsigned width; /* columns; 0 for 80, less than 60 counts as 60 */
    double min_pct; /* branches of the tree below this share of all are summed up in a word */
    unsigned parts; /* of JSON: GSP_REPORT_TOP | GSP_REPORT_TREE; 0 for both */
};

/* What was recorded: command, duration, samples, rate, threads, and losses in words
 * (for losses alone see gsp_model_losses_put() in model/format.h). */
GSP_MUST_CHECK int gsp_report_summary(const struct gsp_profile *profile,
                                      const struct gsp_report_opts *opts, struct gsp_buf *out,
                                      struct gsp_err *err);

/* The table of the hottest functions.  All of these append to out and fail with NOMEM alone. */
GSP_MUST_CHECK int gsp_report_top(const struct gsp_profile *profile,
                                  const struct gsp_view_options *view,
                                  const struct gsp_report_opts *opts, struct gsp_buf *out,
                                  struct gsp_err *err);
GSP_MUST_CHECK int gsp_report_csv(const struct gsp_profile *profile,
                                  const struct gsp_view_options *view,
                                  const struct gsp_report_opts *opts, struct gsp_buf *out,
                                  struct gsp_err *err);
GSP_MUST_CHECK int gsp_report_markdown(const struct gsp_profile *profile,
                                       const struct gsp_view_options *view,
                                       const struct gsp_report_opts *opts, struct gsp_buf *out,
                                       struct gsp_err *err);

/* The call tree as indented text, heaviest branch first. */
GSP_MUST_CHECK int gsp_report_tree(const struct gsp_profile *profile,
                                   const struct gsp_view_options *view,
                                   const struct gsp_report_opts *opts, struct gsp_buf *out,
                                   struct gsp_err *err);

/* {"summary": {}, "top": [], "tree": []}: the tree is a flat list, parents before children. */
GSP_MUST_CHECK int gsp_report_json(const struct gsp_profile *profile,
                                   const struct gsp_view_options *view,
                                   const struct gsp_report_opts *opts, struct gsp_buf *out,
                                   struct gsp_err *err);

/* Appends a field of CSV in quotes.  A name that begins like a formula gets a quote before it, so
 * that no spreadsheet runs it; control characters are escaped as for a terminal. */
void gsp_report_csv_text(struct gsp_buf *out, struct gsp_sv text);
/* Appends text for a cell of a Markdown table: what could be markup or HTML is made plain. */
void gsp_report_markdown_text(struct gsp_buf *out, struct gsp_sv text);
