/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_fault.h -- why the tables of a run lack rows that the package in the program writes.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "record/announcements.h"

/* Appends one line, without its end, on what is missing and what to type next; nothing when all is
 * well.  python_dir is the package's folder, program the first word of the command. */
void gsp_run_told_fault(const struct gsp_run_told *told, const char *python_dir,
                        const char *program, struct gsp_buf *out);
