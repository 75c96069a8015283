/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_table.h -- the statistics of a session as text, rows and JSON.
 *
 * `metrics` is a list of words separated by commas; it selects the metrics whose names contain one
 * of them. NULL selects all.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "frames/session_read.h"
#include "model/row_list.h"

/* Appends name, host, times and losses of the session. */
void gsp_report_session_put_head(const struct gsp_session_data *data, struct gsp_buf *out);
/* The statistics as rows; the caller frees *out with gsp_rows_free(). Fails with NOMEM. */
GSP_MUST_CHECK int gsp_report_session_rows(const struct gsp_session_data *data, const char *metrics,
                                           struct gsp_row_list **out, struct gsp_err *err);
/* Appends one JSON object. */
void gsp_report_session_put_json(const struct gsp_session_data *data, const char *metrics,
                                 struct gsp_buf *out);
