/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_csv.h -- the rows of a query as CSV: RFC 4180 but for its line ends, which are "\n".
 *
 * The first line has the columns' names.  NULL is nothing, an empty text is "": readers that
 * tell quoted from unquoted can tell them apart.  Numbers in full, NaN as nan.
 *
 * Used by: cli/, later the daemon.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Writes all rows while they come.  Fails with what gsp_rows_next() fails with, NOMEM, and,
 * through gsp_out_finish(), IO. */
GSP_MUST_CHECK int gsp_rows_csv(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err);
