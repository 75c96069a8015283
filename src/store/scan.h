/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h -- the table function that reads rings and batches.
 *
 *     gsprof_rows('python.torch_trace', ts_from := 1, ts_to := 2)
 *
 * It reads only the columns that a query needs, and only the rows between ts_from and ts_to.
 * Several threads read at once, each other chunks.
 * Threads: the engine's threads call it.
 */
#pragma once

#include "base/err.h"
#include "store/store_internal.h"

#define GSP_SCAN_NAME "gsprof_rows"

GSP_MUST_CHECK int gsp_store__scan_register(struct gsp_store *store, struct gsp_err *err);
