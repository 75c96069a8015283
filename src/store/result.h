/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result.h -- reads a result of the engine as rows (model/rows.h), chunk by chunk.
 *
 * Threads: one owner.
 */
#pragma once

#include "store/store_internal.h"

/* Makes rows of a running result. Takes ownership of the result, also on failure. Freeing the rows
 * ends the query. */
GSP_MUST_CHECK int gsp_store__result_rows(struct gsp_store *store, duckdb_result *result,
                                          struct gsp_rows **out, struct gsp_err *err);

/* Ends the transaction of a query. */
void gsp_store__query_end(struct gsp_store *store);
/* Converts the error of a query; TIMEOUT or INTR if gsprof stopped it. */
int gsp_store__query_error_convert(struct gsp_store *store, const struct gsp_engine_error *error,
                                   struct gsp_sql_error *where, struct gsp_err *err);
