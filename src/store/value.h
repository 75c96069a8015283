/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.h -- values of the engine's types as text and as JSON.
 *
 * Used by: store/ alone.
 * Threads: a struct gsp_vtype never changes once made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/engine.h"

/* A type with all that reading its vectors needs. */
struct gsp_vtype {
    const struct gsp_duck *duck;
    struct gsp_vtype *children; /* of lists, arrays, structs, maps (key, value), unions */
    char **names;               /* of structs and unions */
    struct gsp_sv *dict;        /* of ENUMs */
    char *dict_bytes;
    size_t child_count;
    uint32_t dict_count;
    duckdb_type id;
    duckdb_type inner;   /* of ENUMs and DECIMALs: as what it is stored */
    uint32_t array_size; /* of arrays */
    uint8_t scale;       /* of DECIMALs */
    uint8_t width;
    bool is_json; /* text that is JSON */
};

/* depth: of types inside types so far.
 * Fails with USAGE (a type that cannot be shown, or too many inside each other) or NOMEM. */
GSP_MUST_CHECK int gsp_store__vtype_read(const struct gsp_duck *duck, duckdb_logical_type type,
                                         unsigned depth, struct gsp_vtype *out,
                                         struct gsp_err *err);
void gsp_store__vtype_free(struct gsp_vtype *type); /* {0} does nothing */

const char *gsp_store__vtype_name(const struct gsp_vtype *type); /* "BIGINT", ...; for people */

/* Values of a vector, one row; not for NULLs. */
struct gsp_cell {
    const struct gsp_vtype *type;
    duckdb_vector vector;
    const void *data; /* of the vector */
    uint64_t row;
};

void gsp_store__cell_text(const struct gsp_cell *cell, struct gsp_buf *out);
/* Also for NULLs. */
void gsp_store__cell_json(const struct gsp_cell *cell, struct gsp_json *out);

/* Numbers as their own types. */
int64_t gsp_store__cell_i64(const struct gsp_cell *cell);
double gsp_store__cell_f64(const struct gsp_cell *cell);
struct gsp_sv gsp_store__cell_bytes(const struct gsp_cell *cell); /* borrowed from the vector */

/* The decimal digits of a 128-bit number. */
void gsp_store__put_i128(struct gsp_buf *out, uint64_t low, int64_t high);
