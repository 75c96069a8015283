/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h -- what a digest says, in ten lines at most: facts first, then what to type next.
 *
 * Used by: digest/ (every report has it), cli/cmd_run.c (on the terminal).
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "report/document.h"

#define GSP_VERDICT_LINES_MAX 10U

/* The share of time that a GPU did nothing (util below 5 %), 0 to 1; NaN without gpu.metrics. */
double gsp_digest_gpu_idle(const struct gsp_digest *digest);

/* Fills digest->verdict, digest->cards and digest->failed_early; what was there is replaced.
 * gsp_digest_open_*() have done it.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_digest_judge(struct gsp_digest *digest, struct gsp_err *err);

/* Appends the verdict as lines for a terminal: the findings, and the command to run next if there
 * is one. Both may be the same buffer. */
void gsp_digest_verdict_text(const struct gsp_digest *digest, struct gsp_buf *findings,
                             struct gsp_buf *next);
