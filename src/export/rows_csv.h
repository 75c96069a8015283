/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_csv.h -- the rows of a query as CSV: RFC 4180, but lines end with "\n".
 *
 * The first line has the column names. NULL is an empty field; an empty string is "". Numbers
 * have full precision, NaN is nan.
 *
 * A spreadsheet evaluates text that begins with =, +, - or @, also after a tab or a line end. Such
 * text gets a leading apostrophe, unless the caller wants the text as it is.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Appends one cell of text. */
void gsp_export_csv_text(struct gsp_sv text, bool is_raw, struct gsp_buf *out);

/* Writes each row as it arrives. Fails as gsp_rows_next() does, with NOMEM, and, through
 * gsp_out_finish(), with IO. */
GSP_MUST_CHECK int gsp_export_rows_write_csv(struct gsp_rows *rows, struct gsp_out *out,
                                             struct gsp_err *err);
/* As above, with all text as it is. */
GSP_MUST_CHECK int gsp_export_rows_write_csv_raw(struct gsp_rows *rows, struct gsp_out *out,
                                                 struct gsp_err *err);
