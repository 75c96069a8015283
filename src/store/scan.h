/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h -- the table function by which the engine reads rings and batches.
 *
 *     gsprof_rows('python.torch_trace', ts_from := 1, ts_to := 2)
 *
 * Only the columns that a query needs are read; several threads read at once, each another
 * piece.  ts_from and ts_to narrow the scan before a row is touched.
 * Used by: store/ alone.
 * Threads: the engine's own call it.
 */
#pragma once

#include "base/err.h"
#include "store/store_internal.h"

#define GSP_SCAN_NAME "gsprof_rows"

GSP_MUST_CHECK int gsp_store__scan_register(struct gsp_store *store, struct gsp_err *err);
