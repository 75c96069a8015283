/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof_heap.h -- a pprof file of memory in use and memory allocated.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "model/profile.h"
#include "model/tree.h"

/* Writes the values alloc_objects, alloc_space, inuse_objects and inuse_space. The profile's totals
 * are the memory in use; `allocated` has one element for each of them, of which only count and
 * weight are read. NULL writes an ordinary profile. A NULL view shows everything. Fails with
 * NOMEM. */
GSP_MUST_CHECK int gsp_export_pprof_write_heap(const struct gsp_profile *profile,
                                               const struct gsp_total *allocated,
                                               const struct gsp_view_options *view,
                                               struct gsp_out *out, struct gsp_err *err);
