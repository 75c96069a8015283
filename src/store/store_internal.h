/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_internal.h -- struct gsp_store and the functions that the files of store/ share.
 *
 * Threads: as store.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "store/catalog.h"
#include "store/engine.h"
#include "store/query_watchdog.h"
#include "store/store.h"

/* The engine's name for its only database. */
#define GSP_CATALOG "memory"

struct gsp_store_ring_dir; /* ring_dirs.c */

struct gsp_store {
    const struct gsp_duckdb *duck;
    duckdb_database db;
    duckdb_connection con;
    struct gsp_store_catalog catalog;
    struct gsp_query_watchdog watch;
    struct gsp_lock fill_lock; /* held while a live table is filled */
    uint64_t query_number;     /* of the current query */
    uint64_t macros_made;      /* a bit for each macro that exists */
    int64_t timeout_ns;        /* INT64_MAX: none */
    int64_t refresh_end_ns;    /* when the current query reaches it */
    uint64_t row_limit;        /* UINT64_MAX: none */
    uint64_t memory_bytes;
    unsigned threads;
    bool locked;
    bool limit_process;
    bool commented;         /* the current views have comments */
    struct gsp_rows *open;  /* result that was not freed yet */
    char *output;           /* path for gsp_store_query_to_file(); NULL: none */
    char *output_tmp;       /* its temporary name */
    struct gsp_buf allowed; /* 'path', 'path': files that the engine may open */
    char **warnings;
    size_t warning_count;
    size_t warning_cap;
    struct gsp_err fill_err; /* why a live table could not be filled in the current query */
    struct gsp_store_ring_dir *ring_dirs;
    size_t ring_dir_count;
    size_t ring_dir_cap;
    char host[GSP_NAME_MAX]; /* name of this machine, for live tables */
};

/* Warns that a full dictionary lost `count` values of a table; does nothing if count is 0. */
void gsp_store__warn_lost_strings(struct gsp_store *store, const char *schema, const char *table,
                                  uint64_t count);

/* Runs internal statements and discards their result. */
GSP_MUST_CHECK int gsp_store__sql_run(struct gsp_store *store, const char *sql,
                                      struct gsp_err *err);

/* Fails with USAGE if the store is locked. */
GSP_MUST_CHECK int gsp_store__check_open(const struct gsp_store *store, struct gsp_err *err);

/* Updates the sources of the needed tables. Marks tables whose string type changed as stale. Leaves
 * out sources that cannot be read, with a warning. Fails with TIMEOUT or NOMEM. */
GSP_MUST_CHECK int gsp_store__refresh(struct gsp_store *store, struct gsp_err *err);

/* Creates the stale views that the statement uses, or all if it may list tables. Creating all
 * views takes longer than many queries do. */
GSP_MUST_CHECK int gsp_store__views_create(struct gsp_store *store, struct gsp_sv sql,
                                           struct gsp_err *err);
/* Creates all stale views. *created: at least one was created. */
GSP_MUST_CHECK int gsp_store__views_create_all(struct gsp_store *store, bool *created,
                                               struct gsp_err *err);
/* Creates the stale views of tables with Parquet files. */
GSP_MUST_CHECK int gsp_store__views_create_parquet(struct gsp_store *store, struct gsp_err *err);
/* Creates the comments on tables and columns: many statements, so only for queries that read
 * them. */
GSP_MUST_CHECK int gsp_store__comments_create(struct gsp_store *store, struct gsp_err *err);

/* Binds the parameters of a prepared statement. params may be NULL: none. */
GSP_MUST_CHECK int gsp_store__params_bind(const struct gsp_duckdb *duck,
                                          duckdb_prepared_statement prepared,
                                          const struct gsp_params *params, struct gsp_err *err);

/* Appends the statement that writes the result of a SELECT to the temporary output file. */
void gsp_store__sql_put_copy(const struct gsp_store *store, struct gsp_sv select,
                             struct gsp_buf *out);
/* Renames the temporary output file. Fails with NOWRITE. */
GSP_MUST_CHECK int gsp_store__output_commit(struct gsp_store *store, struct gsp_err *err);

/* An error of the engine. */
struct gsp_engine_error {
    const char *text; /* may be NULL */
    duckdb_error_type type;
    struct gsp_sv sql; /* the user's statement */
    struct gsp_sv run; /* the statement that the engine got */
};
/* Fills *err and, unless NULL, *where. Returns the code. */
int gsp_store__engine_error_convert(const struct gsp_engine_error *error,
                                    struct gsp_sql_error *where, struct gsp_err *err);
