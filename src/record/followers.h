/* SPDX-License-Identifier: Apache-2.0 */
/*
 * followers.h -- starts `gsprof follow` for the processes below the program of a `gsprof run`.
 *
 * The processes announce themselves in a file (announcements.h). A thread reads it and starts one
 * follower per process, for stacks only. The followers are children of gsprof in their own
 * sessions, so that the program has no additional child and keys typed at the terminal do not reach
 * them.
 *
 * Threads: one owner, and the thread it starts.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "record/run_file.h"

struct gsp_followers; /* opaque */

/* file has the announcements, and is used until the stop; program is a process that already has a
 * follower. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_record_followers_start(const struct gsp_run_file *file, pid_t program,
                                              struct gsp_followers **out, struct gsp_err *err);
/* Waits up to two seconds for the followers of exited processes, which write their last rows, and
 * terminates the others. Returns how many could not create rings. Frees; NULL does nothing. */
size_t gsp_record_followers_stop(struct gsp_followers *followers);
