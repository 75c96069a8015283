/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_internal.h -- what the files of store/ share of a store.
 *
 * Threads: as store.h.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/catalog.h"
#include "store/engine.h"
#include "store/store.h"
#include "store/watch.h"

/* The engine's name for its only database. */
#define GSP_CATALOG "memory"

struct gsp_store_place; /* places.c */

struct gsp_store {
    const struct gsp_duck *duck;
    duckdb_database db;
    duckdb_connection con;
    struct gsp_catalog catalog;
    struct gsp_watch watch;
    pthread_mutex_t fill_lock; /* over filling live tables */
    uint64_t query_number;     /* of the query that runs */
    uint64_t macros_made;      /* a bit for each that was */
    int64_t timeout_ns;        /* INT64_MAX: none */
    uint64_t row_limit;        /* UINT64_MAX: none */
    uint64_t memory_bytes;
    unsigned threads;
    bool locked;
    bool limit_process;
    bool commented;         /* COMMENT ON was done for the views as they are */
    struct gsp_rows *open;  /* a result that was not freed yet */
    char *output;           /* where query_to_file() writes; NULL: nowhere */
    char *output_tmp;       /* before it has that name */
    struct gsp_buf allowed; /* 'path', 'path': what the engine may open */
    char **warnings;
    size_t warning_count;
    struct gsp_err fill_err; /* of a live table, for the query */
    struct gsp_store_place *places;
    size_t place_count;
    char host[GSP_NAME_MAX]; /* this machine, where live tables come from */
};

void gsp_store__warn(struct gsp_store *store, const char *fmt, ...) GSP_PRINTF(2, 3);
/* That so many values of a table found no room in the dictionary of a ring; 0 does nothing. */
void gsp_store__warn_nameless(struct gsp_store *store, const char *schema, const char *table,
                              uint64_t count);

/* Runs statements of our own and forgets their result. */
GSP_MUST_CHECK int gsp_store__run(struct gsp_store *store, const char *sql, struct gsp_err *err);

/* Fails with USAGE once the store is locked: nothing can be added then. */
GSP_MUST_CHECK int gsp_store__check_open(const struct gsp_store *store, struct gsp_err *err);

/* Makes the views that are stale anew: those that the statement names, for making all takes
 * longer than many a query does; all when it may ask what there is. */
GSP_MUST_CHECK int gsp_store__views(struct gsp_store *store, struct gsp_sv sql,
                                    struct gsp_err *err);
/* All of them; *made: there were some to make. */
GSP_MUST_CHECK int gsp_store__all_views(struct gsp_store *store, bool *made, struct gsp_err *err);
/* Those of tables that files feed. */
GSP_MUST_CHECK int gsp_store__file_views(struct gsp_store *store, struct gsp_err *err);
/* Comments on tables and columns: many statements, so only for queries that ask for them. */
GSP_MUST_CHECK int gsp_store__comments(struct gsp_store *store, struct gsp_err *err);

/* Gives the parameters of a prepared statement their values.  params may be NULL: none. */
GSP_MUST_CHECK int gsp_store__bind(const struct gsp_duck *duck, duckdb_prepared_statement prepared,
                                   const struct gsp_params *params, struct gsp_err *err);

/* The statement that writes the result of a SELECT to the output's temporary name. */
void gsp_store__copy_sql(const struct gsp_store *store, struct gsp_sv select, struct gsp_buf *out);
/* Gives the output its name. */
GSP_MUST_CHECK int gsp_store__output_commit(struct gsp_store *store, struct gsp_err *err);

/* An error of the engine as ours: its code, one line of text, and where in sql it is. */
struct gsp_engine_error {
    const char *text; /* as the engine has it; may be NULL */
    duckdb_error_type type;
    struct gsp_sv sql; /* what the user wrote */
    struct gsp_sv run; /* what the engine got */
};
int gsp_store__engine_error(const struct gsp_engine_error *error, struct gsp_sql_error *where,
                            struct gsp_err *err);
