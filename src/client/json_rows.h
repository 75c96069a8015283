/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_rows.h -- the JSON answer to a query, as rows.
 *
 * A column is I64, F64 or BOOL if all its values are, and TEXT otherwise. null and a missing member
 * are NULL.
 *
 * Threads: one owner.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/rows.h"

#define GSP_JSON_ROWS_COLUMNS_MAX 2000U

/* Reads an array of objects, or {"columns": [{"name"}], "rows": [...], "warnings": [...]} with the
 * columns before the rows. Appends the warnings, one per line, to warnings (may be NULL).
 * The caller frees *out with gsp_rows_free(). Fails with FORMAT, LIMIT, NOMEM. */
GSP_MUST_CHECK int gsp_client_rows_from_json(struct gsp_sv text, struct gsp_buf *warnings,
                                             struct gsp_rows **out, struct gsp_err *err);
