/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_summary.h -- where the time of a run went, in a screenful.
 *
 * Used by: cmd_run.c.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

/* Tells the functions and the modules that took the most time, of all these processes.  What
 * there are no rows of is left out; *functions says how many functions were told.
 * Fails with NOTSUP (no engine), NOMEM, ... */
GSP_MUST_CHECK int gsp_run_summary_tell(const pid_t *pids, size_t count, struct gsp_buf *out,
                                        size_t *functions, struct gsp_err *err);
