/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_summary.h -- where the time of a run went, in a screenful.
 *
 * Used by: cmd_run.c, run_finish.c.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "cli/term.h"
#include "store/store.h"

/* Appends what the tables of a locked store tell: the functions and the modules that took the most
 * time.  What there are no rows of is left out; *functions says how many functions were told.
 * Fails as gsp_store_query(). */
GSP_MUST_CHECK int gsp_run_summary_put(struct gsp_store *store, struct gsp_buf *out,
                                       size_t *functions, struct gsp_err *err);
/* Tells the same of all these processes.  Fails with NOTSUP (no engine), NOMEM, ... */
GSP_MUST_CHECK int gsp_run_summary_tell(const pid_t *pids, size_t count, struct gsp_term *term,
                                        size_t *functions, struct gsp_err *err);
