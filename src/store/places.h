/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.h -- the rings of processes, also those that come while a store is open.
 *
 * Used by: store/ alone.
 * Threads: as store.h.
 */
#pragma once

#include "ring/place.h"
#include "store/source_ring.h"
#include "store/store_internal.h"

/* Adds the rings that came since. */
GSP_MUST_CHECK int gsp_store__places_refresh(struct gsp_store *store, struct gsp_err *err);
void gsp_store__places_free(struct gsp_store *store);
