/* SPDX-License-Identifier: Apache-2.0 */
/*
 * width.h -- the columns that text takes on a terminal.
 *
 * East Asian characters and emoji take two columns, combining marks take none. The C library
 * knows the widths if the program has set a UTF-8 locale; otherwise ranges built in here decide.
 *
 * Threads: no state.
 */
#pragma once

#include "base/str.h"

/* Removes the first character of a text that is not empty, and returns its columns.
 * A byte that is not UTF-8 counts as one character of one column. */
unsigned gsp_width_step(struct gsp_sv *text);

/* The columns of the whole text. */
unsigned gsp_width(struct gsp_sv text);
