/* SPDX-License-Identifier: Apache-2.0 */
/*
 * title.h -- a short title by which the user recognizes a process.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

/* Appends "pt_data_worker: " if the process chose this name itself, that is, if neither its command
 * line nor its program contains it. `program` may be empty. */
void gsp_title_put_own(struct gsp_sv name, struct gsp_sv program, struct gsp_sv cmdline,
                       struct gsp_buf *out);
/* Appends the command line, shortened, without the folder of the program. */
void gsp_title_put_command(struct gsp_sv cmdline, struct gsp_buf *out);
