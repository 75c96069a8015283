/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- maps an instruction of a code object to its line.
 *
 * Reads:   an untrusted copy of co_lnotab (3.8, 3.9) or co_linetable (3.10 and later).
 * Gives:   a line number.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "py/layout.h"

/* Results of gsp_py_line_of() that are not lines. */
#define GSP_PY_LINE_UNKNOWN 0    /* the table does not cover the address, or is malformed */
#define GSP_PY_LINE_NONE    (-1) /* the instruction belongs to no line */

/* Returns the line of the instruction at an offset from the first one. */
int gsp_py_line_of(enum gsp_py_lines lines, const uint8_t *table, size_t len, uint32_t first_line,
                   uint32_t addr_bytes);
