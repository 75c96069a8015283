/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document_internal.h -- functions that build a report document.
 *
 * They record a failed allocation in report->no_memory, which is checked once at the end.
 *
 * Threads: as document.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"
#include "base/attr.h"
#include "report/document.h"

/* An empty document. path may be NULL; its last part is the name. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_report__new(enum gsp_report_kind kind, const char *path,
                                   struct gsp_report **out, struct gsp_err *err);
/* Adds the facts command, machine and start, and the extent of the profile. */
void gsp_report__facts_add_origin(struct gsp_report *report);
/* "train.py" of "python3 -u train.py --epochs 3", also of "rank 0: ..."; borrowed. */
struct gsp_sv gsp_report__program_name(struct gsp_sv command);

/* Returns a copy that lives as long as the document; "" if out of memory. */
struct gsp_sv gsp_report__text_keep(struct gsp_report *report, struct gsp_sv text);
/* Copies a buffer and clears it. */
struct gsp_sv gsp_report__text_keep_buf(struct gsp_report *report, struct gsp_buf *text);
struct gsp_sv gsp_report__text_printf(struct gsp_report *report, const char *fmt, ...)
    GSP_PRINTF(2, 3);

/* gsp_array_fit_next(), noting in the report that memory ran out. */
#define gsp_report__array_fit(report, items, count)                                                \
    (gsp_array_fit_next((items), (count)) || !((report)->no_memory = true))

/* Both add a row; the texts are not copied. A loss with count 0 is ignored. */
void gsp_report__fact_add(struct gsp_report *report, struct gsp_sv name, struct gsp_sv value);
void gsp_report__loss_add(struct gsp_report *report, struct gsp_sv what, struct gsp_sv why,
                          uint64_t count);

/* Adds a card with two texts, which are cleared. */
void gsp_report__card_add(struct gsp_report *report, struct gsp_report_card card,
                          struct gsp_buf *value, struct gsp_buf *detail);
/* Adds a line to the verdict and clears the text; does nothing if it is empty or the verdict is
 * full. */
void gsp_report__verdict_add(struct gsp_report *report, struct gsp_buf *text);

/* Adds a loss given by source and cause as in gsprof.loss ("sampler", "late"), in words. */
void gsp_report__loss_add_cause(struct gsp_report *report, struct gsp_sv source,
                                struct gsp_sv cause, uint64_t count);

/* Appends all losses in a line, by kind and cause; nothing if there are none. */
void gsp_report__losses_put(const struct gsp_report *report, struct gsp_buf *out);

/* Adds a chart without series. Returns NULL if out of memory. Borrowed until the next call. */
struct gsp_report_chart *gsp_report__chart_add(struct gsp_report *report, struct gsp_sv id);
/* Sets title, unit and help of a chart with a well-known id. */
void gsp_report__chart_describe(struct gsp_report_chart *chart);
/* Adds a series to a chart. Returns NULL if out of memory. Borrowed until the next call. */
struct gsp_report_series *gsp_report__series_add(struct gsp_report *report,
                                                 struct gsp_report_chart *chart,
                                                 struct gsp_sv name);
/* Computes the statistics of the last chart, and removes lines without a value, and the chart if it
 * has no line left. */
void gsp_report__chart_finish(struct gsp_report *report, struct gsp_report_chart *chart);
/* Adds a point; infinite values become NaN. */
void gsp_report__series_add_point(struct gsp_report *report, struct gsp_report_series *series,
                                  double t, double v);
/* Computes series->stats from the points. */
void gsp_report__series_compute_stats(struct gsp_report_series *series);
void gsp_report__series_free(struct gsp_report_series *series); /* frees the points */

/* Parts of the document. */
/* Fills report->stacks from report->profile; times are relative to start_ns. */
GSP_MUST_CHECK int gsp_report__stacks_fill(struct gsp_report *report,
                                           const struct gsp_report_open_opts *opts,
                                           struct gsp_err *err);
/* Peak and growth of the resident memory, from the chart "rss". */
GSP_MUST_CHECK int gsp_report__rss_fill(struct gsp_report *report, struct gsp_err *err);
/* Adds the next frame of a site's stack, from the outermost on. Copies the texts. Leaves out frames
 * of gsprof, and merges those of an import into one. Returns false if out of memory. */
GSP_MUST_CHECK bool gsp_report__site_add_frame(struct gsp_report *report,
                                               struct gsp_report_site *site,
                                               struct gsp_report_frame frame);
/* Reads a session file. Fails with FORMAT if it is malformed. */
GSP_MUST_CHECK int gsp_report__session_fill(struct gsp_report *report, const char *path,
                                            struct gsp_err *err);
