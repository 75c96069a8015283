/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result.h -- a result of the engine as rows (model/rows.h), chunk by chunk.
 *
 * Used by: store/ alone.
 * Threads: one owner.
 */
#pragma once

#include "store/store_internal.h"

/* Makes rows of a result that runs; takes the result and ends the query when it is freed, also
 * on failure. */
GSP_MUST_CHECK int gsp_store__result_rows(struct gsp_store *store, duckdb_result *result,
                                          struct gsp_rows **out, struct gsp_err *err);

/* Ends the transaction that a query ran in. */
void gsp_store__query_end(struct gsp_store *store);
/* The error of a query: TIMEOUT or INTR when it was we who ended it. */
int gsp_store__query_error(struct gsp_store *store, const struct gsp_engine_error *error,
                           struct gsp_sql_error *where, struct gsp_err *err);
