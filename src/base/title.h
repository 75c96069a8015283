/* SPDX-License-Identifier: Apache-2.0 */
/*
 * title.h -- the words by which a person tells a process from its siblings.
 *
 * Used by: proc/ of processes that live, store/ of those that tables tell of.
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

/* Appends "pt_data_worker: " when a process has given itself this name: neither its command line
 * nor its program, which may be empty, has it.  Often nothing. */
void gsp_title_put_own(struct gsp_sv name, struct gsp_sv program, struct gsp_sv cmdline,
                       struct gsp_buf *out);
/* Appends the command line without the program's folder, cut to what is read at a glance. */
void gsp_title_put_command(struct gsp_sv cmdline, struct gsp_buf *out);
