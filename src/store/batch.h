/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h -- rows of one table in memory, one array for each column.
 *
 * For rows that do not come from a ring: a recorded profile, the current stacks of a target,
 * settings. Strings are interned.
 * Threads: one owner while rows are appended; any number of readers afterwards.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/table.h"

struct gsp_batch; /* opaque */

/* table must outlive the batch. host (copied; may be NULL), pid and rank hold for all rows of a
 * table whose rows do not have these columns (wire/table.h, enum gsp_scope). Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store_batch_new(const struct gsp_table *table, const char *host, int64_t pid,
                                       int64_t rank, struct gsp_batch **out, struct gsp_err *err);
void gsp_store_batch_free(struct gsp_batch *batch); /* NULL does nothing */

/* Returns the id of a string for a STR column; an empty text has an id too. Returns GSP_NULL_STR
 * if memory runs out: the next gsp_store_batch_append() then fails. */
uint32_t gsp_store_batch_intern(struct gsp_batch *batch, struct gsp_sv text);

/* Copies one row from its struct (struct gsp_row_...). Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_store_batch_append(struct gsp_batch *batch, const void *row,
                                          struct gsp_err *err);

/* Borrowed until the next append. */
const struct gsp_table *gsp_store_batch_table(const struct gsp_batch *batch);
size_t gsp_store__batch_rows(const struct gsp_batch *batch);
/* Returns the values of a column: int64_t, double, uint8_t, uint32_t (ids) or struct gsp_sv. */
const void *gsp_store__batch_column(const struct gsp_batch *batch, uint32_t column);
/* Returns the dictionary: [i] is the string with id i; [0] is NULL. */
const struct gsp_sv *gsp_store__batch_strings(const struct gsp_batch *batch, uint32_t *count);
