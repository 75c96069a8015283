/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_notes.h -- what the user should know about where the rings of processes are.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "ring/dir.h"

/* Appends a line for each unusual fact: rings that are not in the usual directory, and why; rings
 * that are smaller than usual. Appends nothing if there is none. */
void gsp_record_ring_notes(const struct gsp_ring_dir *places, size_t count, struct gsp_buf *out);
