/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_rows.h -- an array of objects as rows: what a server answers, to be written as the rows of
 * a query are.
 *
 * A column is whole numbers, numbers, truths, or else text; null and what an object lacks is NULL.
 * Threads: one owner.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/rows.h"

#define GSP_JSON_ROWS_COLUMNS_MAX 2000U

/* An array, or {"columns": [{"name"}], "rows": [...], "warnings": [...]}, whose columns come before
 * its rows.  Warnings, one a line, are appended to warnings (may be NULL).
 * On success gsp_rows_free() frees *out.  Fails with FORMAT (neither of them), LIMIT, NOMEM. */
GSP_MUST_CHECK int gsp_json_rows_new(struct gsp_sv text, struct gsp_buf *warnings,
                                     struct gsp_rows **out, struct gsp_err *err);
