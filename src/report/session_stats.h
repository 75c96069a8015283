/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat_table.h -- a session's statistics, for people and for programs.
 *
 * `metrics` are words joined by commas, one of which a metric's name must have; NULL: all.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "frames/session_read.h"
#include "model/row_list.h"

/* Appends lines that say which session it is, and what is missing of it. */
void gsp_stat_head(const struct gsp_session_data *data, struct gsp_buf *out);
/* The table as rows; the caller frees them with gsp_rows_free(). */
GSP_MUST_CHECK int gsp_stat_table(const struct gsp_session_data *data, const char *metrics,
                                  struct gsp_made_rows **out, struct gsp_err *err);
/* Appends one JSON object. */
void gsp_stat_json(const struct gsp_session_data *data, const char *metrics, struct gsp_buf *out);
