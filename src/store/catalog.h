/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog.h -- what a store shows: tables, their columns, and the sources their rows come from.
 *
 * A source is a ring or a batch: columns in arrays, strings as ids of its own.  A table merges
 * the dictionaries of its sources into one that is sorted, so that an ENUM of it sorts as text
 * does; each source has a table that turns its ids into places in that dictionary.
 * Used by: store/ alone.
 * Threads: changed only between queries; read by the engine's threads during one.
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

/* The common columns, and those of a table. */
#define GSP_SOURCE_COLUMNS_MAX (GSP_COLUMNS_MAX + 4U)
/* More strings than this are handed out as text: an ENUM of them costs more than it saves. */
#define GSP_ENUM_STRINGS_MAX   65535U

/* Rows [from, to), by number. */
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
    int64_t from_ns; /* INT64_MIN: from the first */
    int64_t to_ns;   /* the last one that belongs; INT64_MAX: to the end */
};

struct gsp_source;

struct gsp_source_ops {
    /* Looks anew what rows and strings there are; *changed: there are other strings. */
    int (*refresh)(struct gsp_source *source, bool *changed, struct gsp_err *err);
    /* Appends the spans of the rows whose time lies in the range. */
    int (*select)(const struct gsp_source *source, const struct gsp_time_range *range,
                  struct gsp_spans *out, struct gsp_err *err);
    /* Values of rows [from, from + *n) of a column; *n may become less, not 0. */
    const void *(*values)(const struct gsp_source *source, uint32_t lane, uint32_t column,
                          uint64_t from, size_t *n);
    /* The first row whose values are surely as they were. */
    uint64_t (*oldest)(const struct gsp_source *source, uint32_t lane);
    /* The text at a value of a TEXT column, appended to out; false: NULL, or gone (*gone). */
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
    uint32_t host_place;                       /* of host, as ranks[] */
    uint32_t *places;                          /* id -> place in the dictionary + 1; 0: NULL */
    int32_t column_of[GSP_SOURCE_COLUMNS_MAX]; /* the table's column -> the source's; -1 */
    uint64_t row_count;                        /* of the last refresh */
    _Atomic uint64_t texts_lost;               /* overwritten before they were read */
    _Atomic uint64_t rows_missed;              /* amid others that were read; of all queries */
    uint64_t rows_told;                        /* of them, by a warning */
    _Atomic bool names_read;                   /* values of the dictionary, by the query */
    uint64_t strings_told;                     /* that found no room in it, by a warning */
};

/* A value that a source has once, for all rows. */
enum gsp_constant { GSP_CONST_NONE, GSP_CONST_HOST, GSP_CONST_PID, GSP_CONST_RANK };

struct gsp_view_column {
    char name[GSP_NAME_MAX];
    char *doc; /* NULL: none */
    enum gsp_type type;
    enum gsp_constant constant; /* when the rows do not carry it */
};

struct gsp_batch;

/* Bytes of text that the engine can have: UTF-8 without NULs; U+FFFD stands for the rest.
 * *text is as it was or lies in room.  False when there is no memory. */
bool gsp_store__utf8(struct gsp_sv *text, struct gsp_buf *room);

struct gsp_view {
    char schema[GSP_NAME_MAX];
    char name[GSP_NAME_MAX];
    const struct gsp_table *table; /* of tables.def; NULL: users' own */
    struct gsp_view_column columns[GSP_SOURCE_COLUMNS_MAX];
    uint32_t column_count;
    struct gsp_source **sources;
    size_t source_count;
    struct gsp_buf parquet; /* 'path', 'path', ... */
    /* Rows that are made when they are read: one source that is filled once a query. */
    int (*fill)(void *ctx, struct gsp_batch *batch, struct gsp_err *err);
    void *fill_ctx;
    struct gsp_source *live;
    uint64_t live_query; /* the query it was filled for */
    /* The dictionary: sorted, none twice. */
    struct gsp_sv *strings;
    uint32_t string_count;
    char *string_bytes; /* each with a NUL behind it */
    size_t string_byte_count;
    duckdb_logical_type string_type; /* NULL: VARCHAR */
    uint32_t string_width;           /* bytes of an ENUM's value; 0: VARCHAR */
    bool stale;                      /* the engine's view is not of this shape */
    bool wanted;                     /* by the statement that comes */
};

struct gsp_catalog {
    const struct gsp_duck *duck;
    struct gsp_view **views;
    size_t view_count;
};

/* Frees all, sources included. */
void gsp_store__catalog_free(struct gsp_catalog *catalog);

/* NULL when there is none. */
struct gsp_view *gsp_store__view_find(const struct gsp_catalog *catalog, struct gsp_sv schema,
                                      struct gsp_sv name);
/* Finds it, or makes it: with the columns of tables.def if that has it, else with none.
 * Fails with USAGE (a name that cannot be one) or NOMEM. */
GSP_MUST_CHECK int gsp_store__view_get(struct gsp_catalog *catalog, const char *schema,
                                       const char *name, struct gsp_view **out,
                                       struct gsp_err *err);
/* Adds a source whose rows have these columns; columns that the table lacks are added to it.
 * Takes the source, also on failure.  Fails with FORMAT (a column of another type) or NOMEM. */
GSP_MUST_CHECK int gsp_store__view_add(struct gsp_view *view, struct gsp_source *source,
                                       const struct gsp_source_column *columns, size_t count,
                                       enum gsp_scope scope, struct gsp_err *err);
void gsp_store__source_free(struct gsp_source *source); /* NULL does nothing */

/* Looks anew at all sources; views whose shape changed are stale then. */
GSP_MUST_CHECK int gsp_store__catalog_refresh(struct gsp_catalog *catalog, struct gsp_err *err);
/* Merges the dictionaries of a view's sources anew. */
GSP_MUST_CHECK int gsp_store__view_strings(const struct gsp_duck *duck, struct gsp_view *view,
                                           struct gsp_err *err);

/* Puts the rows of a batch, which it takes, in place of those that a live table had. */
GSP_MUST_CHECK int gsp_store__live_fill(const struct gsp_duck *duck, struct gsp_view *view,
                                        struct gsp_batch *batch, struct gsp_err *err);

GSP_MUST_CHECK int gsp_store__spans_add(struct gsp_spans *spans, struct gsp_source_span span,
                                        struct gsp_err *err);

/* A source over a batch, which it takes, also on failure. */
GSP_MUST_CHECK int gsp_store__batch_source(struct gsp_batch *batch, struct gsp_source **out,
                                           struct gsp_err *err);
/* Adds it to its view. */
GSP_MUST_CHECK int gsp_store__add_batch_source(struct gsp_view *view, struct gsp_source *source,
                                               const struct gsp_table *table, struct gsp_err *err);
