/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h -- SQL over rings, files and rows in memory.
 *
 * The caller opens a store, adds the sources of its tables, locks it, and then runs queries.
 * Every table of wire/tables.def exists, empty if it has no source. The rows of several sources of
 * one table are combined. After the lock no statement can access files, the network or the
 * configuration. A query is a single SELECT, EXPLAIN, SHOW TABLES or DESCRIBE.
 * The engine (DuckDB) is a shared library that gsp_store_open() loads.
 *
 * Threads: one owner; gsp_store_interrupt() from any thread or signal handler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/rows.h"
#include "ring/dir.h"
#include "ring/reader.h"
#include "store/batch.h"
#include "wire/table.h"

struct gsp_store; /* opaque */

struct gsp_store_options {
    const char *library;   /* file of the engine; NULL: search for it */
    uint64_t memory_bytes; /* 0: a quarter of the machine's memory, at most 4 GB */
    int64_t timeout_ns;    /* of each query; 0: 30 s; negative: none */
    uint64_t row_limit;    /* of each result; 0: none */
    unsigned threads;      /* 0: the number of cores */
    /* Also limit the data size of the process (RLIMIT_DATA) to little more than memory_bytes above
     * its current size: the engine does not count the bytes of strings against its own limit. */
    bool limit_process;
};

/* Fails with NOTSUP (no engine; the message lists the searched folders), VERSION, LIMIT, NOMEM. */
GSP_MUST_CHECK int gsp_store_open(const struct gsp_store_options *options, struct gsp_store **out,
                                  struct gsp_err *err);
void gsp_store_close(struct gsp_store *store); /* NULL does nothing */

/* The functions that add sources must be called before gsp_store_lock(). */

/* Adds the rings of a running or ended process, including rings that it creates later. Leaves out
 * rings that cannot be read, with a warning (gsp_store_warning()). */
GSP_MUST_CHECK int gsp_store_add_ring_dir(struct gsp_store *store, const struct gsp_ring_dir *dir,
                                          struct gsp_err *err);
/* The parts of a ring that the store has from segments. Both functions are called only during
 * gsp_store__add_ring_dir_from(). */
struct gsp_ring_start {
    /* Returns the first row of a lane to read from the ring. */
    uint64_t (*row_of)(const void *ctx, const struct gsp_ring_info *info, uint32_t lane);
    /* Returns how much of the ring's loss by cause (GSP_LOSS_*) is already counted. May be NULL. */
    uint64_t (*lost_of)(const void *ctx, const struct gsp_ring_info *info, const char *cause);
    const void *ctx;
};
/* The same as gsp_store_add_ring_dir(), without those parts. first may be NULL. */
GSP_MUST_CHECK int gsp_store__add_ring_dir_from(struct gsp_store *store,
                                                const struct gsp_ring_dir *dir,
                                                const struct gsp_ring_start *first,
                                                struct gsp_err *err);
/* Adds rows in memory. Takes ownership of the batch, also on failure. */
GSP_MUST_CHECK int gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch,
                                       struct gsp_err *err);
/* Rows that are computed from their row number when they are read: there may be more than fit in
 * memory. */
struct gsp_computed {
    uint64_t rows;
    /* Writes rows [from, from + n) of a column of the table: int64_t, double, or uint32_t (ids of
     * the batch's strings). The engine's threads call it, several at once. */
    void (*read)(const void *ctx, uint32_t column, uint64_t from, size_t n, void *out);
    void (*free)(void *ctx); /* may be NULL */
    void *ctx;
};
/* The batch has the table, the constants and the strings, but no rows. The table must not have
 * TEXT or BOOL columns. Takes ownership of the batch and of ctx, also on failure. */
GSP_MUST_CHECK int gsp_store_add_computed(struct gsp_store *store, struct gsp_batch *batch,
                                          const struct gsp_computed *computed, struct gsp_err *err);
/* Adds a live table: fill() makes the rows when a query scans the table, once in each query. It
 * runs on a thread of the engine while the owner waits, and appends to an empty batch. If it fails,
 * the query fails with its error. ctx must outlive the store. */
GSP_MUST_CHECK int gsp_store_add_live(struct gsp_store *store, const struct gsp_table *table,
                                      int (*fill)(void *ctx, struct gsp_batch *batch,
                                                  struct gsp_err *err),
                                      void *ctx, struct gsp_err *err);
/* Adds Parquet files of a table, which tables.def need not list. Leaves out files that are not
 * complete Parquet files, with a warning (gsp_store_warning()). Columns that a file lacks are
 * NULL. */
GSP_MUST_CHECK int gsp_store_add_parquet(struct gsp_store *store, const char *schema,
                                         const char *table, const char *const *paths,
                                         size_t path_count, struct gsp_err *err);
/* Sets the file that gsp_store_query_to_file() writes. An existing file is replaced.
 * Fails with NOWRITE. */
GSP_MUST_CHECK int gsp_store_allow_output(struct gsp_store *store, const char *path,
                                          struct gsp_err *err);
/* Locks the store: nothing can be added afterwards. */
GSP_MUST_CHECK int gsp_store_lock(struct gsp_store *store, struct gsp_err *err);

/* Adds a warning to the answers. */
void gsp_store_warn(struct gsp_store *store, const char *fmt, ...) GSP_PRINTF(2, 3);
/* Returns a warning, one line; NULL past the last. Borrowed until close. */
const char *gsp_store_warning(const struct gsp_store *store, size_t i);

/* The position of an error in the SQL, and a suggestion. */
struct gsp_sql_error {
    uint32_t line;       /* from 1; 0: unknown */
    uint32_t column;     /* from 1, in characters */
    char candidate[128]; /* the most similar table, column or function; "" if unknown */
};

/* Splits a text into statements at semicolons that are not in strings or comments. *pos is 0 for
 * the first call and is advanced. Skips empty statements. Returns false at the end. */
bool gsp_store_sql_next(struct gsp_sv text, size_t *pos, struct gsp_sv *out);

/* Runs one statement. The caller frees *out with gsp_rows_free() before the next query.
 * A query reads the rows that the rings have when it starts.
 * Fails with USAGE (wrong SQL; fills *where, which may be NULL), PERM (another kind of statement,
 * or several), TIMEOUT, INTR, LIMIT (memory). */
GSP_MUST_CHECK int gsp_store_query(struct gsp_store *store, struct gsp_sv sql,
                                   struct gsp_rows **out, struct gsp_sql_error *where,
                                   struct gsp_err *err);
/* The value of a parameter of a statement. */
enum gsp_param_kind {
    GSP_PARAM_NULL,
    GSP_PARAM_BOOL,
    GSP_PARAM_I64,
    GSP_PARAM_F64,
    GSP_PARAM_TEXT,
};
struct gsp_param {
    struct gsp_sv name; /* of $name; {NULL, 0}: positional, for ? and $1 */
    struct gsp_sv text; /* UTF-8 */
    int64_t whole;
    double number;
    enum gsp_param_kind kind;
    bool truth;
};
struct gsp_params {
    const struct gsp_param *at; /* all named or all positional */
    size_t count;
};
/* The same for a statement with parameters. Each parameter must have exactly one value; the values
 * are bound, not inserted into the text. Fails with USAGE if a value is missing or unused. */
GSP_MUST_CHECK int gsp_store_query_with(struct gsp_store *store, struct gsp_sv sql,
                                        const struct gsp_params *params, struct gsp_rows **out,
                                        struct gsp_sql_error *where, struct gsp_err *err);
/* Writes the result of a SELECT as a Parquet file (zstd) to the path of gsp_store_allow_output().
 * *rows (may be NULL) is the number of rows. */
GSP_MUST_CHECK int gsp_store_query_to_file(struct gsp_store *store, struct gsp_sv sql,
                                           uint64_t *rows, struct gsp_sql_error *where,
                                           struct gsp_err *err);

/* Interrupts the running query, which fails with INTR. Signal-safe. */
void gsp_store_interrupt(struct gsp_store *store);
