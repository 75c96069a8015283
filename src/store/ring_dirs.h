/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_dirs.h -- the ring directories of a store, and the rings in them.
 *
 * Threads: as store.h.
 */
#pragma once

#include "store/source_ring.h"
#include "store/store_internal.h"

/* Adds the rings that were created since the last call. */
GSP_MUST_CHECK int gsp_store__ring_dirs_refresh(struct gsp_store *store, struct gsp_err *err);
void gsp_store__ring_dirs_free(struct gsp_store *store);
