/* SPDX-License-Identifier: Apache-2.0 */
/*
 * macros.h -- the table macros of macros.sql, created when a query first uses them.
 *
 * Creating all of them would take longer than many queries do.
 *
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

/* Returns false past the last. *out points to constants. */
bool gsp_store__macro_at(size_t i, struct gsp_macro *out);

/* Whether text contains the name as a whole word. */
bool gsp_store__macro_is_used(struct gsp_sv text, struct gsp_sv name);

/* Creates the macros that a statement uses, directly or through other macros, or all of them if it
 * lists functions. *created has a bit for each macro that exists. */
GSP_MUST_CHECK int gsp_store__macros_create(struct gsp_store *store, struct gsp_sv sql,
                                            uint64_t *created, struct gsp_err *err);
