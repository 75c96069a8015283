/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prove.h -- whether the calls of a stack that was read are calls that the program makes.
 *
 * walk.h says what a proof is.
 *
 * Used by: py/walk.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>

#include "py/walk.h"

/* True if every edge of walker->chain is proven, now or before.  snap is what the chain was read
 * from; try numbers the reads. */
bool gsp_py__prove(struct gsp_py_walker *walker, struct gsp_snap *snap, int64_t now_ns,
                   unsigned try);
