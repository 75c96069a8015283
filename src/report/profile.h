/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile.h -- the report of a profile: summary, hottest functions and call tree as text, CSV,
 * Markdown and JSON.
 *
 * Text has three significant figures and fits the width; names are escaped. JSON and CSV have full
 * precision, and the unit in the key.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"
#include "model/tree.h"

enum gsp_report_sort {
    GSP_REPORT_SORT_OWN,   /* without callees */
    GSP_REPORT_SORT_TOTAL, /* with callees */
};

/* Parts of a JSON report; the summary is always included. */
#define GSP_REPORT_PART_TOP      1U
#define GSP_REPORT_PART_TREE     2U

#define GSP_REPORT_WIDTH_DEFAULT 80U
#define GSP_REPORT_WIDTH_MIN     60U

/* {0}: sort by own time, all functions and frames, 80 columns. */
struct gsp_profile_report_opts {
    enum gsp_report_sort sort;
    size_t limit;   /* rows of the table; 0: all */
    unsigned width; /* columns; 0: 80; at least 60 */
    double min_pct; /* smaller branches of the tree are summed up in one line */
    bool raw;       /* CSV: text as it is, also if a spreadsheet takes it for a formula */
    unsigned parts; /* of JSON: GSP_REPORT_PART_TOP | GSP_REPORT_PART_TREE; 0: both */
};

/* Command, duration, samples, rate, threads and losses. */
GSP_MUST_CHECK int gsp_report_profile_summary(const struct gsp_profile *profile,
                                              const struct gsp_profile_report_opts *opts,
                                              struct gsp_buf *out, struct gsp_err *err);

/* The table of the hottest functions. All of these append to out and fail only with NOMEM. */
GSP_MUST_CHECK int gsp_report_profile_top(const struct gsp_profile *profile,
                                          const struct gsp_view_options *view,
                                          const struct gsp_profile_report_opts *opts,
                                          struct gsp_buf *out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report_profile_csv(const struct gsp_profile *profile,
                                          const struct gsp_view_options *view,
                                          const struct gsp_profile_report_opts *opts,
                                          struct gsp_buf *out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report_profile_markdown(const struct gsp_profile *profile,
                                               const struct gsp_view_options *view,
                                               const struct gsp_profile_report_opts *opts,
                                               struct gsp_buf *out, struct gsp_err *err);

/* The call tree as indented text, the heaviest branch first. */
GSP_MUST_CHECK int gsp_report_profile_tree(const struct gsp_profile *profile,
                                           const struct gsp_view_options *view,
                                           const struct gsp_profile_report_opts *opts,
                                           struct gsp_buf *out, struct gsp_err *err);

/* {"summary": {}, "top": [], "tree": []}: the tree is a flat list, parents before children. */
GSP_MUST_CHECK int gsp_report_profile_json(const struct gsp_profile *profile,
                                           const struct gsp_view_options *view,
                                           const struct gsp_profile_report_opts *opts,
                                           struct gsp_buf *out, struct gsp_err *err);

/* Appends a quoted CSV field. Text that starts like a formula is prefixed with a quote, so that
 * spreadsheets do not evaluate it; control characters are escaped as for a terminal. Raw text is
 * quoted where CSV needs it, and otherwise unchanged. */
void gsp_report__csv_text(struct gsp_buf *out, struct gsp_sv text, bool is_raw);
