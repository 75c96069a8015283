/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h -- rows of one table in this process's memory, laid out as a ring's are.
 *
 * For tables that do not come from a ring: a recorded profile, the present stacks of a target,
 * settings.  Grows; strings are interned.
 * Used by: store/ and whoever makes rows for it (cli/).
 * Threads: one owner; many readers once nothing writes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/table.h"

struct gsp_batch; /* opaque */

/* table is kept.  host (copied; may be NULL), pid and rank are the constants of tables whose
 * rows do not carry them (wire/table.h, enum gsp_scope). */
GSP_MUST_CHECK int gsp_batch_new(const struct gsp_table *table, const char *host, int64_t pid,
                                 int64_t rank, struct gsp_batch **out, struct gsp_err *err);
void gsp_batch_free(struct gsp_batch *batch); /* NULL does nothing */

/* The id of a string for a STR column; an empty text has an id too.  GSP_NULL_STR when there is
 * no memory: gsp_batch_append() fails then. */
uint32_t gsp_batch_intern(struct gsp_batch *batch, struct gsp_sv text);

/* Copies one row from its struct (struct gsp_row_...). Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_batch_append(struct gsp_batch *batch, const void *row, struct gsp_err *err);

/* Borrowed until the next append. */
const struct gsp_table *gsp_batch_table(const struct gsp_batch *batch);
size_t gsp_batch_rows(const struct gsp_batch *batch);
/* The values of a column: int64_t, double, uint8_t, uint32_t (ids) or struct gsp_sv. */
const void *gsp_batch_column(const struct gsp_batch *batch, uint32_t column);
/* The dictionary: string of id i at i; [0] is NULL. */
const struct gsp_sv *gsp_batch_strings(const struct gsp_batch *batch, uint32_t *count);
