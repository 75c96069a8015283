/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h -- the tables that processes and files exchange: their columns, types and NULLs.
 *
 * Gives:   a description of each table of tables.def, and a C struct for its rows:
 *          struct gsp_row_python_torch_trace, ...
 * Threads: constants.
 *
 * A value that could not be read is NULL, never 0. A reserved value in the column's array stands
 * for NULL, so writing NULL costs as much as writing a number: the smallest integer, a NaN with a
 * payload that no computation produces, string 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

/* Bytes of the names of a schema, a table and a column, with the NUL. */
#define GSP_NAME_MAX    64U
/* Columns of a table, including the common ones. */
#define GSP_COLUMNS_MAX 64U

enum gsp_type {
    GSP_I64 = 1, /* int64_t */
    GSP_F64,     /* double */
    GSP_BOOL,    /* uint8_t: 0, 1 */
    GSP_STR,     /* uint32_t: id in the table's dictionary */
    GSP_TEXT,    /* in a row struct gsp_sv; in a ring a 64-bit word (wire/ring.h) */
};

#define GSP_NULL_I64      INT64_MIN
#define GSP_NULL_F64_BITS UINT64_C(0x7ff8677370000001)
#define GSP_NULL_BOOL     UINT8_C(2)
#define GSP_NULL_STR      UINT32_C(0)
#define GSP_NULL_TEXT     UINT64_MAX

static inline double gsp_null_f64(void)
{
    const uint64_t bits = GSP_NULL_F64_BITS;
    double v = 0;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Compares bits, because an ordinary NaN is a value. */
static inline bool gsp_is_null_f64(double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof(bits));
    return bits == GSP_NULL_F64_BITS;
}

/* The common columns before a table's own. */
enum gsp_scope {
    GSP_SCOPE_TARGET, /* ts_ns host pid rank: one process, known from the ring's header */
    GSP_SCOPE_ROWS,   /* ts_ns host pid rank: pid and rank are values of each row */
    GSP_SCOPE_HOST,   /* ts_ns host */
    GSP_SCOPE_PLAIN,  /* none */
};

struct gsp_column {
    const char *name;
    const char *unit; /* "" if none */
    const char *doc;  /* one clause, no full stop */
    enum gsp_type type;
    uint32_t row_offset; /* in the row's struct, bytes */
};

/* The columns are those in the rows: ts_ns and mono_ns (except for PLAIN), then pid and rank (for
 * ROWS), then the table's own. host, and pid and rank for TARGET, are constants of a ring. */
struct gsp_table {
    const char *schema;
    const char *name;
    const char *doc;
    const struct gsp_column *columns;
    enum gsp_scope scope;
    uint32_t column_count;
    uint32_t row_bytes; /* sizeof the row's struct */
};

#define GSP_CTYPE_I64  int64_t
#define GSP_CTYPE_F64  double
#define GSP_CTYPE_BOOL uint8_t
#define GSP_CTYPE_STR  uint32_t
#define GSP_CTYPE_TEXT struct gsp_sv

/* The common members. mono_ns is CLOCK_MONOTONIC; readers merge lanes by it. */
#define GSP_ROW_TIMES                                                                              \
    int64_t ts_ns;                                                                                 \
    int64_t mono_ns;
#define GSP_ROW_TARGET GSP_ROW_TIMES
#define GSP_ROW_ROWS                                                                               \
    GSP_ROW_TIMES                                                                                  \
    int64_t pid;                                                                                   \
    int64_t rank;
#define GSP_ROW_HOST GSP_ROW_TIMES
#define GSP_ROW_PLAIN

#define GSP_TABLE(schema, name, scope, doc)                                                        \
    struct gsp_row_##schema##_##name {                                                             \
        GSP_ROW_##scope
#define GSP_COL(name, type, unit, doc) GSP_CTYPE_##type name;
#define GSP_TABLE_END(schema, name)                                                                \
    }                                                                                              \
    ;
#include "wire/tables.def"
#undef GSP_TABLE
#undef GSP_COL
#undef GSP_TABLE_END

/* GSP_TABLE_python_torch_trace, ...: the index of gsp_wire_table_at(). */
enum gsp_table_id {
#define GSP_TABLE(schema, name, scope, doc) GSP_TABLE_##schema##_##name,
#define GSP_COL(name, type, unit, doc)
#define GSP_TABLE_END(schema, name)
#include "wire/tables.def"
#undef GSP_TABLE
#undef GSP_COL
#undef GSP_TABLE_END
    GSP_TABLE_COUNT
};

/* Return a static table, or NULL if it does not exist. */
const struct gsp_table *gsp_wire_table_at(size_t i);
const struct gsp_table *gsp_wire_table_find(const char *schema, const char *name);

/* Returns the size of a value in a ring: 8, 8, 1, 4, 8; 0 if the type is invalid. */
size_t gsp_wire_type_width(uint32_t type);
const char *gsp_wire_type_name(uint32_t type); /* "i64", ...; "?" */

/* Whether a schema, table or column may have this name: [a-z_][a-z0-9_]*, at most 63 bytes. */
bool gsp_wire_table_name_is_valid(struct gsp_sv name);
#define GSP_TABLE_NAME_RULE "lower-case letters, digits and _, at most 63, no digit first"

/* Tables that are not in tables.def: those of the user. */
#define GSP_DOC_MAX         128U /* bytes of a description, with the NUL; longer ones are cut */

struct gsp_column_spec {
    const char *name;
    const char *unit; /* may be NULL */
    const char *doc;  /* may be NULL */
    enum gsp_type type;
};

struct gsp_table_spec {
    const char *schema;
    const char *name;
    const char *doc;                       /* may be NULL */
    const struct gsp_column_spec *columns; /* the table's own, without the common ones */
    size_t column_count;
    enum gsp_scope scope;
};

/* Creates a table; copies everything. Its rows have the layout of a C struct: the members of
 * columns[] in order, at row_offset.
 * Fails with USAGE (an invalid name or type), LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_wire_table_new(const struct gsp_table_spec *spec, struct gsp_table **out,
                                      struct gsp_err *err);
/* Frees a table of gsp_wire_table_new(); NULL does nothing. */
void gsp_wire_table_free(struct gsp_table *table);
