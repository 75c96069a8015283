/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.h -- verifies that the calls of a stack are calls that the program makes.
 *
 * walk.h describes how.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>

#include "py/walk.h"

/* Returns whether every edge of walker->chain is verified, now or before. snap is the snapshot from
 * which the chain was read; try is the number of the read. */
bool gsp_py__edges_verify(struct gsp_py_walker *walker, struct gsp_snap *snap, int64_t now_ns,
                          unsigned try);
