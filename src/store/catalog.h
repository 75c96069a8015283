/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog.h -- the tables of a store, their columns, and the sources of their rows.
 *
 * A source is a ring or a batch. It stores columns as arrays, and strings as ids of its own
 * dictionary. A table merges the dictionaries of its sources into one sorted dictionary, so that
 * its ENUM sorts like text. Each source maps its ids to codes of that dictionary.
 * Threads: changed only between queries; the engine's threads read it during a query.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "store/engine.h"
#include "wire/table.h"

/* A table's own columns and the common ones. */
#define GSP_SOURCE_COLUMNS_MAX (GSP_COLUMNS_MAX + 4U)
/* A table with more strings returns them as VARCHAR: a larger ENUM costs more than it saves. */
#define GSP_ENUM_STRINGS_MAX   65535U

/* Row numbers [from, to) of a lane. */
struct gsp_source_span {
    uint64_t from;
    uint64_t to;
    uint32_t lane;
};

struct gsp_spans {
    struct gsp_source_span *at;
    size_t count;
    size_t cap;
};

struct gsp_time_range {
    int64_t from_ns; /* inclusive; INT64_MIN: no limit */
    int64_t to_ns;   /* inclusive; INT64_MAX: no limit */
};

struct gsp_source;

/* Memory for the strings of the tables of one statement. */
struct gsp_string_budget {
    uint64_t left_bytes;
};

struct gsp_source_ops {
    /* Updates row_count and, unless budget is NULL, strings. Sets *changed if the strings changed.
     * Fails with LIMIT if the strings exceed the budget, or with NOMEM. The source has no rows then
     * until the next call. */
    int (*refresh)(struct gsp_source *source, struct gsp_string_budget *budget, bool *changed,
                   struct gsp_err *err);
    /* Appends the spans of the rows whose time is in the range. */
    int (*select)(const struct gsp_source *source, const struct gsp_time_range *range,
                  struct gsp_spans *out, struct gsp_err *err);
    /* Returns the values of rows [from, from + *n) of a column. May lower *n, but not to 0. */
    const void *(*values)(const struct gsp_source *source, uint32_t lane, uint32_t column,
                          uint64_t from, size_t *n);
    /* Returns the first row that has not been overwritten. */
    uint64_t (*oldest)(const struct gsp_source *source, uint32_t lane);
    /* Appends the text of a TEXT value to out. Returns false if it is NULL or, then *gone is set,
     * overwritten. */
    bool (*text)(const struct gsp_source *source, uint32_t lane, const void *value,
                 struct gsp_buf *out, bool *gone);
    size_t text_width; /* bytes of one value of a TEXT column */
    void (*free)(struct gsp_source *source);
};

struct gsp_source_column {
    const char *name; /* borrowed */
    const char *doc;  /* borrowed; NULL: none */
    const char *unit; /* borrowed; NULL: none */
    enum gsp_type type;
};

struct gsp_source {
    const struct gsp_source_ops *ops;
    void *impl;
    const char *host; /* borrowed from impl; NULL: unknown */
    int64_t pid;
    int64_t rank;
    const struct gsp_sv *strings; /* of the last refresh; [0] is NULL */
    uint32_t string_count;
    uint32_t host_code;                        /* like codes[] */
    uint32_t *codes;                           /* by id: code in the dictionary + 1; 0: NULL */
    int32_t column_of[GSP_SOURCE_COLUMNS_MAX]; /* by the table's column: the source's; -1: none */
    uint64_t row_count;                        /* of the last refresh */
    _Atomic uint64_t texts_lost;               /* overwritten before they were read */
    _Atomic uint64_t rows_missed;              /* overwritten between rows that queries read */
    uint64_t rows_warned;                      /* part of rows_missed that a warning reported */
    _Atomic bool strings_read;                 /* the current query read a string column */
    uint64_t strings_warned;                   /* strings lost that a warning reported */
    bool left_out;                             /* a warning reported that it cannot be read */
};

/* A column whose value is the same for all rows of a source. */
enum gsp_constant_column { GSP_CONST_NONE, GSP_CONST_HOST, GSP_CONST_PID, GSP_CONST_RANK };

struct gsp_store_column {
    char name[GSP_NAME_MAX];
    char *doc; /* NULL: none */
    enum gsp_type type;
    enum gsp_constant_column constant; /* used if the source has no such column */
};

struct gsp_batch;
struct gsp_computed; /* store/store.h */

/* Makes text valid for the engine: UTF-8 without NULs, U+FFFD for each other byte. *text stays
 * unchanged or points into room. Returns false if memory runs out. */
bool gsp_store__utf8_repair(struct gsp_sv *text, struct gsp_buf *room);

struct gsp_store_table {
    char schema[GSP_NAME_MAX];
    char name[GSP_NAME_MAX];
    const struct gsp_table *table; /* of tables.def; NULL: user-defined */
    struct gsp_store_column columns[GSP_SOURCE_COLUMNS_MAX];
    uint32_t column_count;
    struct gsp_source **sources;
    size_t source_count;
    size_t source_cap;
    struct gsp_buf parquet; /* 'path', 'path', ... */
    /* A live table: fill() makes its rows, once in each query that scans it. */
    int (*fill)(void *ctx, struct gsp_batch *batch, struct gsp_err *err);
    void *fill_ctx;
    struct gsp_source *live;
    uint64_t live_query; /* number of the query that filled it */
    /* The dictionary: sorted, without duplicates. */
    struct gsp_sv *strings;
    uint32_t string_count;
    char *string_bytes; /* each string ends with a NUL */
    size_t string_byte_count;
    duckdb_logical_type string_type; /* NULL: VARCHAR */
    uint32_t string_width;           /* bytes of an ENUM's value; 0: VARCHAR */
    bool stale;                      /* the engine's view must be created again */
    bool needed;                     /* by the next statement */
};

struct gsp_store_catalog {
    const struct gsp_duckdb *duck;
    struct gsp_store_table **views;
    size_t view_count;
    size_t view_cap;
};

/* Frees the tables and their sources. */
void gsp_store__catalog_free(struct gsp_store_catalog *catalog);

/* Returns NULL if it does not exist. */
struct gsp_store_table *gsp_store__table_find(const struct gsp_store_catalog *catalog,
                                              struct gsp_sv schema, struct gsp_sv name);
/* Finds or creates a table. A new table has the columns of tables.def, or none if tables.def does
 * not list it. Fails with USAGE (invalid name), LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_store__table_get(struct gsp_store_catalog *catalog, const char *schema,
                                        const char *name, struct gsp_store_table **out,
                                        struct gsp_err *err);
/* Adds a source with these columns. Columns that the table lacks are added to it.
 * Takes ownership of the source, also on failure. Fails with FORMAT (a column has another type),
 * LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_store__table_add_source(struct gsp_store_table *view,
                                               struct gsp_source *source,
                                               const struct gsp_source_column *columns,
                                               size_t count, enum gsp_scope scope,
                                               struct gsp_err *err);
void gsp_store__source_free(struct gsp_source *source); /* NULL does nothing */

/* Merges the dictionaries of a table's sources. */
GSP_MUST_CHECK int gsp_store__table_merge_strings(const struct gsp_duckdb *duck,
                                                  struct gsp_store_table *view,
                                                  struct gsp_err *err);

/* Replaces the rows of a live table. Takes ownership of the batch, also on failure. */
GSP_MUST_CHECK int gsp_store__live_replace(const struct gsp_duckdb *duck,
                                           struct gsp_store_table *view, struct gsp_batch *batch,
                                           struct gsp_err *err);

GSP_MUST_CHECK int gsp_store__spans_add(struct gsp_spans *spans, struct gsp_source_span span,
                                        struct gsp_err *err);

/* Creates a source of the rows of a batch or, if computed is not NULL, of computed rows that use
 * the batch's strings. Takes ownership of both, also on failure. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store__batch_source_new(struct gsp_batch *batch,
                                               const struct gsp_computed *computed,
                                               struct gsp_source **out, struct gsp_err *err);
/* Adds such a source to its table. */
GSP_MUST_CHECK int gsp_store__table_add_batch(struct gsp_store_table *view,
                                              struct gsp_source *source,
                                              const struct gsp_table *table, struct gsp_err *err);
