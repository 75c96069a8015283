/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h -- the conclusions of a report in at most ten lines: findings, then the command to run
 * next.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "report/document.h"

#define GSP_VERDICT_LINES_MAX 10U

/* The share of time in which a GPU was idle (below 5 %), 0 to 1; NaN without GPU metrics. */
double gsp_report__gpu_idle(const struct gsp_report *report);

/* Fills report->verdict, report->cards and report->failed_early, replacing previous values.
 * gsp_report_open_*() call it. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_report__verdict_fill(struct gsp_report *report, struct gsp_err *err);

/* Appends the verdict as lines for a terminal: the findings, and the command to run next if there
 * is one. Both may be the same buffer. */
void gsp_report_verdict_put(const struct gsp_report *report, struct gsp_buf *findings,
                            struct gsp_buf *next);
