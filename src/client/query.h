/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h -- the body of POST /query.
 *
 * The answer is read by json_rows.h.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "store/store.h"

/* Appends the JSON body for a statement. format is "json", "object", "csv", "csv-raw" or "arrow";
 * params may be NULL. Without memory out->failed is set. */
void gsp_client_query_body(struct gsp_sv sql, const struct gsp_params *params, const char *format,
                           struct gsp_buf *out);
