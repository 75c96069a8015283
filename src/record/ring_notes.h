/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_notes.h -- notes for the user on unusual ring directories.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "ring/dir.h"

/* Appends a line per unusual fact: rings outside the default directory, with the reason, and rings
 * that are smaller than the default. */
void gsp_record_ring_notes_put(const struct gsp_ring_dir *dirs, size_t count, struct gsp_buf *out);
