/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_arrow.h -- the rows of a query as an Arrow IPC stream (docs/formats/arrow.md).
 *
 * Column types: Int64, Float64, Bool, Utf8 (JSON too), Decimal128(38, 0), and Utf8 by a
 * dictionary with 32-bit ids.  Each field's metadata has its SQL type.
 *
 * Used by: cli/, later the daemon and the Python package.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Writes all rows while they come; a failure in the middle leaves the stream without its end.
 * Fails with what gsp_rows_next() fails with, NOMEM, LIMIT (a text or a dictionary of 2 GB), and,
 * through gsp_out_finish(), IO. */
GSP_MUST_CHECK int gsp_rows_arrow(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err);
