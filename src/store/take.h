/* SPDX-License-Identifier: Apache-2.0 */
/*
 * take.h -- copies rows out of a ring into a batch, before they are overwritten.
 *
 * What was copied is kept apart from what is on disk: when writing fails the taker goes back to
 * what the manifest has, and takes what the ring still holds again.
 *
 * Used by: store/drain.c.
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

struct gsp_taker; /* opaque: a ring being drained */

/* Takes the view, also on failure.  is_new: the ring was made after draining began, so that all
 * its rows were there to be drained.  cursor (may be NULL) says what was drained before. */
GSP_MUST_CHECK int gsp_taker_new(struct gsp_ring_view *view, const struct gsp_ring_cursor *cursor,
                                 bool is_new, struct gsp_taker **out, struct gsp_err *err);
void gsp_taker_free(struct gsp_taker *taker); /* NULL does nothing */

const struct gsp_ring_info *gsp_taker_info(const struct gsp_taker *taker); /* borrowed */

/* Copies what is new, as long as fewer than rows_max wait.  Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_taker_take(struct gsp_taker *taker, size_t rows_max, struct gsp_err *err);
size_t gsp_taker_rows(const struct gsp_taker *taker);        /* that wait */
int64_t gsp_taker_since_ns(const struct gsp_taker *taker);   /* CLOCK_MONOTONIC: the oldest does */
uint64_t gsp_taker_published(const struct gsp_taker *taker); /* rows of the ring so far */
uint64_t gsp_taker_lost(const struct gsp_taker *taker);      /* since the last settle */

/* The rows that wait; the caller's.  NULL when there are none. */
struct gsp_batch *gsp_taker_batch(struct gsp_taker *taker);
/* A ring that another drainer has begun: what the manifest has of its losses is not new. */
void gsp_taker_resume(struct gsp_taker *taker, const struct gsp_manifest *manifest);
/* Writes into a manifest how far it came, and what was lost on the way. */
GSP_MUST_CHECK int gsp_taker_note(const struct gsp_taker *taker, struct gsp_manifest *manifest,
                                  struct gsp_err *err);
/* The batch and the manifest are on disk (kept), or they are not and will not be. */
void gsp_taker_settle(struct gsp_taker *taker, bool kept);
