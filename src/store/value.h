/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.h -- converts values of the engine to text and JSON.
 *
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

/* A type of the engine, with everything needed to read its vectors. */
struct gsp_vtype {
    const struct gsp_duckdb *duck;
    struct gsp_vtype *children; /* of lists, arrays, structs, maps (key, value), unions */
    char **names;               /* of structs and unions */
    struct gsp_sv *dict;        /* of ENUMs */
    char *dict_bytes;
    size_t child_count;
    uint32_t dict_count;
    duckdb_type id;
    duckdb_type inner;   /* of ENUMs and DECIMALs: the storage type */
    uint32_t array_size; /* of arrays */
    uint8_t scale;       /* of DECIMALs */
    uint8_t width;
    bool is_json; /* the text is JSON */
};

/* depth: the nesting level, 0 for a column.
 * Fails with USAGE (unsupported type, or nested too deeply) or NOMEM. */
GSP_MUST_CHECK int gsp_store__vtype_read(const struct gsp_duckdb *duck, duckdb_logical_type type,
                                         unsigned depth, struct gsp_vtype *out,
                                         struct gsp_err *err);
void gsp_store__vtype_free(struct gsp_vtype *type); /* {0} does nothing */

const char *gsp_store__vtype_name(const struct gsp_vtype *type); /* "BIGINT", ... */

/* One row of a vector. Must not be NULL, except for gsp_store__cell_json(). */
struct gsp_cell {
    const struct gsp_vtype *type;
    duckdb_vector vector;
    const void *data; /* of the vector */
    uint64_t row;
};

void gsp_store__cell_text(const struct gsp_cell *cell, struct gsp_buf *out);
void gsp_store__cell_json(const struct gsp_cell *cell, struct gsp_json *out);

/* Return a number in the C type of its kind. */
int64_t gsp_store__cell_i64(const struct gsp_cell *cell);
double gsp_store__cell_f64(const struct gsp_cell *cell);
struct gsp_sv gsp_store__cell_bytes(const struct gsp_cell *cell); /* borrowed from the vector */

/* Appends a 128-bit number in decimal. */
void gsp_store__put_i128(struct gsp_buf *out, uint64_t low, int64_t high);
