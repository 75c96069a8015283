/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h -- SQL over rings, files and rows in memory.
 *
 * A store is made, is given what its tables shall show, is locked, and then answers queries.
 * Every table of wire/tables.def is there, empty when nothing feeds it; several sources of one
 * table show as one.  After the lock no statement can reach a file, the network or the
 * configuration, and exactly one SELECT, EXPLAIN, SHOW TABLES or DESCRIBE is accepted at a time.
 * The engine (DuckDB) is a shared library, loaded by gsp_store_open().
 *
 * Used by: cli/, later the daemon and the Python package.
 * Threads: one owner; gsp_store_interrupt() from any thread or signal handler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/rows.h"
#include "ring/place.h"
#include "ring/reader.h"
#include "store/batch.h"
#include "wire/table.h"

struct gsp_store; /* opaque */

struct gsp_store_options {
    const char *library;   /* the engine's file; NULL: looked for */
    uint64_t memory_bytes; /* 0: a quarter of what the machine has, at most 4 GB */
    int64_t timeout_ns;    /* of each query; 0: 30 s; negative: none */
    uint64_t row_limit;    /* of each result; 0: none */
    unsigned threads;      /* 0: as many as the machine has cores */
    /* The process is the caller's own to limit: its data (RLIMIT_DATA) may grow by little more
     * than memory_bytes.  The engine does not count the bytes of strings against its limit. */
    bool limit_process;
};

/* Fails with NOTSUP (no engine: the message says where it was looked for), VERSION, NOMEM. */
GSP_MUST_CHECK int gsp_store_open(const struct gsp_store_options *options, struct gsp_store **out,
                                  struct gsp_err *err);
void gsp_store_close(struct gsp_store *store); /* NULL does nothing */

/* What queries see.  All before gsp_store_lock(). */

/* The rings of a process, live or dead, also those that it makes later.  A ring that cannot be
 * read is left out and told by gsp_store_warning(). */
GSP_MUST_CHECK int gsp_store_add_place(struct gsp_store *store, const struct gsp_place *place,
                                       struct gsp_err *err);
/* Where each lane of a ring begins to be shown: rows before are shown by somebody else
 * (segments).  Asked for every lane during the call that gets it. */
struct gsp_first_rows {
    uint64_t (*row_of)(const void *ctx, const struct gsp_ring_info *info, uint32_t lane);
    /* What another reader shows of the ring's losses by cause (GSP_LOSS_*); NULL: none. */
    uint64_t (*lost_of)(const void *ctx, const struct gsp_ring_info *info, const char *cause);
    const void *ctx;
};
/* The same, without the rows before those; first may be NULL. */
GSP_MUST_CHECK int gsp_store_add_place_after(struct gsp_store *store, const struct gsp_place *place,
                                             const struct gsp_first_rows *first,
                                             struct gsp_err *err);
/* Rows in memory; takes the batch, also on failure. */
GSP_MUST_CHECK int gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch,
                                       struct gsp_err *err);
/* Rows that are worked out from their numbers when they are read: more than memory holds. */
struct gsp_computed {
    uint64_t rows;
    /* Writes rows [from, from + n) of a column of the table: int64_t, double, or uint32_t (ids of
     * the batch's strings).  The engine's threads call it, several at once. */
    void (*read)(const void *ctx, uint32_t column, uint64_t from, size_t n, void *out);
    void (*free)(void *ctx);
    void *ctx; /* taken, also on failure */
};
/* The batch, which is taken too, has the table, its constants and its strings, and no rows.  The
 * table has no TEXT and no BOOL columns. */
GSP_MUST_CHECK int gsp_store_add_computed(struct gsp_store *store, struct gsp_batch *batch,
                                          const struct gsp_computed *computed, struct gsp_err *err);
/* Rows that are made when a query scans the table: once a query, by a thread of the engine while
 * the owner waits.  fill appends to an empty batch; its failure is the query's.  ctx is kept. */
GSP_MUST_CHECK int gsp_store_add_live(struct gsp_store *store, const struct gsp_table *table,
                                      int (*fill)(void *ctx, struct gsp_batch *batch,
                                                  struct gsp_err *err),
                                      void *ctx, struct gsp_err *err);
/* Parquet files of one table, also one that tables.def does not have.  A file that is no whole
 * Parquet file is left out and told by gsp_store_warning(); columns a file lacks are NULL. */
GSP_MUST_CHECK int gsp_store_add_parquet(struct gsp_store *store, const char *schema,
                                         const char *table, const char *const *paths,
                                         size_t path_count, struct gsp_err *err);
/* The one file that gsp_store_query_to_file() may write; one that is there is replaced.
 * Fails with NOWRITE. */
GSP_MUST_CHECK int gsp_store_allow_output(struct gsp_store *store, const char *path,
                                          struct gsp_err *err);
/* Makes the views and macros; nothing can be added any more. */
GSP_MUST_CHECK int gsp_store_lock(struct gsp_store *store, struct gsp_err *err);

/* What was left out: one line each; NULL past the last.  Borrowed until close. */
const char *gsp_store_warning(const struct gsp_store *store, size_t i);

/* Where in the SQL an error is, and what may have been meant. */
struct gsp_sql_error {
    uint32_t line;       /* from 1; 0: unknown */
    uint32_t column;     /* from 1, in characters */
    char candidate[128]; /* the nearest table, column or function; "" */
};

/* Takes the statements of a text one by one, from *pos on, which is 0 at first: up to a semicolon
 * that is in no string and no comment.  What has no word in it is passed over.  False: no more. */
bool gsp_sql_next(struct gsp_sv text, size_t *pos, struct gsp_sv *out);

/* Runs one statement; the caller frees *out with gsp_rows_free() before the next query.
 * Every query sees the rings as they are when it starts.
 * Fails with USAGE (the SQL: *where is filled, may be NULL), PERM (none of those, or several),
 * TIMEOUT, INTR, LIMIT (memory). */
GSP_MUST_CHECK int gsp_store_query(struct gsp_store *store, struct gsp_sv sql,
                                   struct gsp_rows **out, struct gsp_sql_error *where,
                                   struct gsp_err *err);
/* A value for a parameter of a statement. */
enum gsp_param_kind {
    GSP_PARAM_NULL,
    GSP_PARAM_BOOL,
    GSP_PARAM_I64,
    GSP_PARAM_F64,
    GSP_PARAM_TEXT,
};
struct gsp_param {
    struct gsp_sv name; /* of $name; {NULL, 0}: by place, for ? and $1 */
    struct gsp_sv text; /* UTF-8 */
    int64_t whole;
    double number;
    enum gsp_param_kind kind;
    bool truth;
};
struct gsp_params {
    const struct gsp_param *at; /* all with names, or none */
    size_t count;
};
/* The same for a statement with parameters; each must get exactly one value, which is never part
 * of the text.  USAGE also says which one is missing or too many. */
GSP_MUST_CHECK int gsp_store_query_with(struct gsp_store *store, struct gsp_sv sql,
                                        const struct gsp_params *params, struct gsp_rows **out,
                                        struct gsp_sql_error *where, struct gsp_err *err);
/* The result as a Parquet file (zstd) under the path that was allowed; *rows (may be NULL) gets
 * how many it has. */
GSP_MUST_CHECK int gsp_store_query_to_file(struct gsp_store *store, struct gsp_sv sql,
                                           uint64_t *rows, struct gsp_sql_error *where,
                                           struct gsp_err *err);

/* Ends the running query, which fails with INTR.  Signal-safe: it sets a flag that a watching
 * thread sees within milliseconds. */
void gsp_store_interrupt(struct gsp_store *store);
