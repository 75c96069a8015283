/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_csv.h -- the rows of a query as CSV: RFC 4180, but lines end with "\n".
 *
 * The first line has the column names. NULL is an empty field; an empty string is "". Numbers
 * have full precision, NaN is nan.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Writes each row as it arrives. Fails as gsp_rows_next() does, with NOMEM, and, through
 * gsp_out_finish(), with IO. */
GSP_MUST_CHECK int gsp_export_rows_write_csv(struct gsp_rows *rows, struct gsp_out *out,
                                             struct gsp_err *err);
