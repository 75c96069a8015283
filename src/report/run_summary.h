/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_summary.h -- the hottest functions and modules of a run, for the terminal.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

/* Appends the functions and modules of these processes that took the most time, and returns the
 * number of functions in *functions. A table without rows is left out. Fails with NOTSUP (no SQL
 * engine) or NOMEM, and as queries do. */
GSP_MUST_CHECK int gsp_report_run_summary_put(const pid_t *pids, size_t count, struct gsp_buf *out,
                                              size_t *functions, struct gsp_err *err);
