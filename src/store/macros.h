/* SPDX-License-Identifier: Apache-2.0 */
/*
 * macros.h -- the table macros of macros.sql: made when a query first names them.
 *
 * Making all of them takes as long as many a query does.
 *
 * Used by: store/ alone; gsp_macro_at() by whoever lists or documents them.
 * Threads: as store.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_store;

#define GSP_MACROS_MAX 64U

struct gsp_macro {
    struct gsp_sv name; /* "hot_functions", in the schema gsprof */
    struct gsp_sv sql;  /* the whole statement */
};

/* Borrowed for ever; false past the last. */
bool gsp_macro_at(size_t i, struct gsp_macro *out);

/* Whether text has the name as a word of its own. */
bool gsp_macro_named(struct gsp_sv text, struct gsp_sv name);

/* Makes the macros that a statement names, and those that they name; *made holds a bit for each
 * that is there.  A statement that lists functions gets all. */
GSP_MUST_CHECK int gsp_store__macros(struct gsp_store *store, struct gsp_sv sql, uint64_t *made,
                                     struct gsp_err *err);
