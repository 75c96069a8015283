/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_followers.h -- `gsprof follow` for the processes of `gsprof run` below the program itself.
 *
 * The processes say their pids in a file (run_told.h); a thread waits for lines and starts one
 * follower for each process, for stacks alone.  They are our children, in sessions of their own:
 * the program never has one more child, and keys of the terminal do not reach them.
 *
 * Used by: cmd_run.c.
 * Threads: one owner, and the one it starts.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_run_followers; /* opaque */

/* told_path is copied; program is the process that is followed already.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_run_followers_start(const char *told_path, pid_t program,
                                           struct gsp_run_followers **out, struct gsp_err *err);
/* Waits for the followers of processes that have ended, whose last rows are under way, and ends
 * the others: two seconds at most.  Returns how many found no place for their tables.  Frees; NULL
 * does nothing. */
size_t gsp_run_followers_stop(struct gsp_run_followers *followers);
