/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_fault.h -- explains why a run lacks the rows that the package writes inside the program.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "record/announcements.h"

/* Appends one line without a newline: what is missing and the command to try. Appends nothing if
 * all is well. python_dir is the package's folder, program the first word of the command. */
void gsp_cli__run_fault_explain(const struct gsp_announcements *announced, const char *python_dir,
                                const char *program, struct gsp_buf *out);
