/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_copy.h -- copies rows from a ring to a batch before they are overwritten.
 *
 * Copied rows and written rows are counted separately. If writing fails, the next call copies the
 * rows again that the ring still has.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "ring/reader.h"
#include "store/batch.h"
#include "store/manifest.h"

struct gsp_ring_copier; /* opaque: a ring being drained */

/* Takes ownership of the view, also on failure. is_new: the ring was created after draining began,
 * so rows missing from it are lost. cursor (may be NULL): how far it was drained before. */
GSP_MUST_CHECK int gsp_store__copier_new(struct gsp_ring_view *view,
                                         const struct gsp_drain_cursor *cursor, bool is_new,
                                         struct gsp_ring_copier **out, struct gsp_err *err);
void gsp_store__copier_free(struct gsp_ring_copier *taker); /* NULL does nothing */

const struct gsp_ring_info *
gsp_store__copier_info(const struct gsp_ring_copier *taker); /* borrowed */

/* Copies new rows while the batch has fewer than rows_max. Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_store__copier_copy(struct gsp_ring_copier *taker, size_t rows_max,
                                          struct gsp_err *err);
size_t gsp_store__copier_rows(const struct gsp_ring_copier *taker); /* in the batch */
int64_t
gsp_store__copier_since_ns(const struct gsp_ring_copier *taker); /* CLOCK_MONOTONIC, of the batch */
uint64_t
gsp_store__copier_published(const struct gsp_ring_copier *taker); /* rows that the ring ever had */
uint64_t
gsp_store__copier_lost(const struct gsp_ring_copier *taker); /* since gsp_store__copier_finish() */
/* Whether anything was lost since then, also what the ring counts itself. */
bool gsp_store__copier_has_losses(const struct gsp_ring_copier *taker);

/* Returns the batch, which the caller then owns; NULL if it has no rows. */
struct gsp_batch *gsp_store__copier_batch(struct gsp_ring_copier *taker);
/* Continues a ring of an earlier drainer: the losses in the manifest are not counted again. */
void gsp_store__copier_resume(struct gsp_ring_copier *taker, const struct gsp_manifest *manifest);
/* Adds the cursor and the losses to a manifest. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store__copier_put_manifest(const struct gsp_ring_copier *taker,
                                                  struct gsp_manifest *manifest,
                                                  struct gsp_err *err);
/* Ends a write: the batch and the manifest are on disk, or the rows must be copied again. */
void gsp_store__copier_finish(struct gsp_ring_copier *taker, bool is_written);
