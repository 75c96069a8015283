/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_json.h -- the rows of a query as a JSON array of objects, one a line.
 *
 * Numbers are numbers, in full; NaN and infinities are null, as NULL is.  Keys are the columns'
 * names, made unique (model/cells.h).  Lists, structs and maps stand as the JSON they are.
 *
 * Used by: cli/, later the daemon.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/rows.h"

/* Writes all rows while they come.  A failure in the middle leaves the array open, so that no
 * reader takes it for the whole.  Fails with what gsp_rows_next() fails with, NOMEM, and, through
 * gsp_out_finish(), IO. */
GSP_MUST_CHECK int gsp_rows_json(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err);
