/* SPDX-License-Identifier: Apache-2.0 */
/*
 * title.h -- what a process is called, so that a person tells it from its siblings.
 *
 * Reads:   /proc/<pid>/{environ,comm}.
 * Used by: sample/ and cli/.
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

/* Appends "rank 3: " when RANK or LOCAL_RANK is in the environment, which launchers of distributed
 * jobs set, and "pt_data_worker: " when the process has given itself a name that its command line
 * does not have.  Often nothing. */
void gsp_proc_put_role(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out);
/* The same, and the command line without the program's folder, cut to what is read at a glance. */
void gsp_proc_put_title(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out);
