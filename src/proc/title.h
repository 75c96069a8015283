/* SPDX-License-Identifier: Apache-2.0 */
/*
 * title.h -- a display name of a process that distinguishes it from its siblings.
 *
 * Reads:   /proc/<pid>/{environ,comm}.
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

/* Appends "rank 3: " if RANK or LOCAL_RANK is set in the environment, as launchers of distributed
 * jobs do, and "pt_data_worker: " if the process has set a name that is not in its command line.
 * Usually appends nothing. */
void gsp_proc_put_role(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out);
/* Appends the role, then a shortened command line without the program's folder. */
void gsp_proc_put_title(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out);
