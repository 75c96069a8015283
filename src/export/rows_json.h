/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_json.h -- the rows of a query as a JSON array of objects, one per line.
 *
 * Numbers have full precision. NULL, NaN and infinities are null. Keys are the column names,
 * made unique (model/cells.h). Lists, structs and maps are nested JSON.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Writes each row as it arrives. If it fails midway, the array stays open, so that a reader
 * detects it. Fails as gsp_rows_next() does, with NOMEM, and, through gsp_out_finish(), with IO. */
GSP_MUST_CHECK int gsp_export_rows_write_json(struct gsp_rows *rows, struct gsp_out *out,
                                              struct gsp_err *err);
/* Appends the array to a buffer. On failure the array stays open. */
GSP_MUST_CHECK int gsp_export_rows_json_append(struct gsp_rows *rows, struct gsp_buf *out,
                                               struct gsp_err *err);
