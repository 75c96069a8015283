/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.h -- memory in use and memory allocated, in one file of pprof.
 *
 * Used by: cli/ (mem report).
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/profile.h"
#include "model/tree.h"

/* Values alloc_objects, alloc_space, inuse_objects and inuse_space: what is in use are the sums of
 * the profile, what was allocated is told by an array with an element for each of them (count and
 * weight are looked at).  NULL: an ordinary profile.  A NULL view shows all.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_pprof_write_heap(const struct gsp_profile *profile,
                                        const struct gsp_total *allocated,
                                        const struct gsp_view *view, struct gsp_out *out,
                                        struct gsp_err *err);
