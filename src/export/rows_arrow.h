/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_arrow.h -- the rows of a query as an Arrow IPC stream (docs/formats/arrow.md).
 *
 * Column types: Int64, Float64, Bool, Utf8 (also for JSON), Decimal128(38, 0), and
 * dictionary-encoded Utf8 with 32-bit indices. Each field's metadata has its SQL type.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Writes each row as it arrives. If it fails midway, the stream has no end marker. Fails as
 * gsp_rows_next() does, with NOMEM or LIMIT (a string or a dictionary of 2 GB), and, through
 * gsp_out_finish(), with IO. */
GSP_MUST_CHECK int gsp_export_rows_write_arrow(struct gsp_rows *rows, struct gsp_out *out,
                                               struct gsp_err *err);
