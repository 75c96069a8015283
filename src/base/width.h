/* SPDX-License-Identifier: Apache-2.0 */
/*
 * width.h -- the display width of text on a terminal, in columns.
 *
 * East Asian characters and emoji have two columns, combining marks have none. In a UTF-8 locale
 * the C library provides the widths; otherwise built-in ranges approximate them.
 *
 * Threads: no state.
 */
#pragma once

#include "base/str.h"

/* Removes the first character of a non-empty text and returns its width.
 * An invalid UTF-8 byte counts as one character of width 1. */
unsigned gsp_width_step(struct gsp_sv *text);

/* Returns the width of the whole text. */
unsigned gsp_width(struct gsp_sv text);
