/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- from an instruction of a code object to its line.
 *
 * Reads:   a copy of co_lnotab (3.8, 3.9) or co_linetable (3.10 and later).
 * Gives:   a line number.  Nothing in the table is believed: it is read within its bounds, once.
 * Used by: the code cache, for every new (code, instruction) pair.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "py/layout.h"

/* What gsp_py_line_of() gives besides lines. */
#define GSP_PY_LINE_UNKNOWN 0    /* the table does not cover the address, or makes no sense there */
#define GSP_PY_LINE_NONE    (-1) /* the compiler made this instruction for no line */

/* The line of the instruction that starts addr_bytes after the first one. */
int gsp_py_line_of(enum gsp_py_lines lines, const uint8_t *table, size_t len, uint32_t first_line,
                   uint32_t addr_bytes);
