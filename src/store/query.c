/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "store/macros.h"
#include "store/result.h"
#include "store/ring_dirs.h"
#include "store/source_ring.h"
#include "store/sql_guard.h"
#include "store/sql_text.h"
#include "store/store_internal.h"

#define SQL_BYTES_MAX (1U << 20)
#define PAUSE_NS      20000

static const char TABLES_SQL[] = "SELECT table_schema || '.' || table_name AS name "
                                 "FROM information_schema.tables ORDER BY name";

struct statement {
    struct gsp_store *store;
    struct gsp_sv sql;  /* the user's text */
    struct gsp_buf run; /* the text for the engine */
    struct gsp_sql_error *where;
    duckdb_prepared_statement prepared;
    duckdb_statement_type type;
};

static int engine_error(struct statement *st, const char *text, duckdb_error_type type,
                        struct gsp_err *err)
{
    const struct gsp_engine_error error = {text, type, st->sql, gsp_buf_sv(&st->run)};
    return gsp_store__query_error_convert(st->store, &error, st->where, err);
}

static int timed_out(const struct gsp_store *store, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_TIMEOUT, 0, "the query took longer than %.3g s",
                       (double)store->timeout_ns / 1e9);
}

int gsp_store__query_error_convert(struct gsp_store *store, const struct gsp_engine_error *error,
                                   struct gsp_sql_error *where, struct gsp_err *err)
{
    if (store->fill_err.code != GSP_OK) {
        if (err)
            *err = store->fill_err;
        return store->fill_err.code;
    }
    if (atomic_load(&store->watch.interrupted))
        return gsp_err_set(err, GSP_E_INTR, 0, "the query was interrupted");
    if (atomic_load(&store->watch.timed_out))
        return timed_out(store, err);
    const int rc = gsp_store__engine_error_convert(error, where, err);
    /* The engine's own text advises settings that a query cannot change. */
    return rc == GSP_E_LIMIT
               ? gsp_err_set(err, rc, 0, "the query needs more memory than its limit of %llu MiB",
                             (unsigned long long)(store->memory_bytes >> 20))
               : rc;
}

static bool is_system_table(const void *ctx, struct gsp_sv name)
{
    const struct gsp_store_catalog *catalog = ctx;
    char lower[GSP_NAME_MAX];
    if (name.len >= sizeof(lower))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.p[i];
        lower[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    return gsp_store__table_find(catalog, gsp_sv_of("system"), (struct gsp_sv){lower, name.len}) !=
           NULL;
}

static int count_statements(struct statement *st, duckdb_extracted_statements *out, const char *sql,
                            struct gsp_err *err)
{
    const struct gsp_duckdb *duck = st->store->duck;
    const idx_t count = duck->extract_statements(st->store->con, sql, out);
    if (count == 1)
        return GSP_OK;
    const char *text = count == 0 ? duck->extract_statements_error(*out) : NULL;
    int rc = GSP_OK;
    if (count > 1 && gsp_store__sql_is_one(gsp_sv_of(sql))) {
        rc = gsp_err_set(err, GSP_E_USAGE, 0,
                         "PIVOT is not supported without a list of values: "
                         "ON column IN (value, ...)");
    } else if (count > 1) {
        rc = gsp_err_set(err, GSP_E_PERM, 0, "only one statement is allowed, not %llu",
                         (unsigned long long)count);
    } else if (text && *text) {
        rc = engine_error(st, text, DUCKDB_ERROR_PARSER, err);
    } else {
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "the statement is empty");
    }
    duck->destroy_extracted(out);
    return rc;
}

/* Parses and binds a statement without running it. */
static int prepare(struct statement *st, const char *sql, duckdb_prepared_statement *out,
                   struct gsp_err *err)
{
    const struct gsp_duckdb *duck = st->store->duck;
    duckdb_extracted_statements extracted = NULL;
    int rc = count_statements(st, &extracted, sql, err);
    if (rc != GSP_OK)
        return rc;
    if (duck->prepare_extracted_statement(st->store->con, extracted, 0, out) != DuckDBSuccess) {
        rc = engine_error(st, duck->prepare_error(*out), DUCKDB_ERROR_BINDER, err);
        duck->destroy_prepare(out);
    }
    duck->destroy_extracted(&extracted);
    return rc;
}

static bool is_select(struct statement *st, struct gsp_sv sql)
{
    gsp_auto_buf text = {0};
    gsp_buf_putsv(&text, sql);
    const char *line = gsp_buf_cstr(&text);
    duckdb_prepared_statement inner = NULL;
    if (!line || !gsp_store__sql_may_read(sql) || prepare(st, line, &inner, NULL) != GSP_OK)
        return false;
    const bool select =
        st->store->duck->prepared_statement_type(inner) == DUCKDB_STATEMENT_TYPE_SELECT;
    st->store->duck->destroy_prepare(&inner);
    return select;
}

/* EXPLAIN ANALYZE runs the statement, so it must be a SELECT. */
static bool is_explained_select(struct statement *st)
{
    struct gsp_sv inner;
    struct gsp_sv after_options;
    struct gsp_sql_error *where = st->where;
    st->where = NULL;
    const bool ok = gsp_store__sql_explained(gsp_buf_sv(&st->run), &inner, &after_options) &&
                    (is_select(st, inner) || (after_options.p && is_select(st, after_options)));
    st->where = where;
    return ok;
}

static int not_allowed(bool explain, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_PERM, 0, "only SELECT%s allowed here",
                       explain ? ", EXPLAIN, SHOW TABLES and DESCRIBE are" : " is");
}

static int check_type(struct statement *st, bool explain, struct gsp_err *err)
{
    st->type = st->store->duck->prepared_statement_type(st->prepared);
    if (st->type == DUCKDB_STATEMENT_TYPE_SELECT && gsp_store__sql_may_read(st->sql))
        return GSP_OK;
    if (explain && st->type == DUCKDB_STATEMENT_TYPE_EXPLAIN && is_explained_select(st))
        return GSP_OK;
    return not_allowed(explain, err);
}

/* Whether the statement may read comments, which are created only then. */
static bool needs_comments(struct gsp_sv sql)
{
    for (struct gsp_sql_token token = gsp_store__sql_token(sql, 0); token.kind != GSP_SQL_END;
         token = gsp_store__sql_token(sql, token.to)) {
        const struct gsp_sv word = {sql.p + token.from, token.to - token.from};
        if (token.kind == GSP_SQL_WORD && word.len >= 7 &&
            (strncasecmp(word.p, "duckdb_", 7) == 0 || strncasecmp(word.p, "comment", 7) == 0))
            return true;
    }
    return false;
}

static int refresh(struct gsp_store *store, struct gsp_sv sql, struct gsp_err *err)
{
    store->query_number++;
    store->fill_err = (struct gsp_err){0};
    const int64_t now_ns = gsp_now_ns();
    store->refresh_end_ns =
        store->timeout_ns < INT64_MAX - now_ns ? now_ns + store->timeout_ns : INT64_MAX;
    int rc = gsp_store__ring_dirs_refresh(store, err);
    if (rc == GSP_OK)
        rc = gsp_store__views_create(store, sql, err);
    if (rc == GSP_OK && needs_comments(sql))
        rc = gsp_store__comments_create(store, err);
    if (rc == GSP_OK)
        rc = gsp_store__macros_create(store, sql, &store->macros_made, err);
    return rc;
}

/* The engine's SHOW TABLES lists only the default schema, which is empty. */
static bool is_show_tables(struct gsp_sv sql)
{
    const struct gsp_sql_token show = gsp_store__sql_token(sql, 0);
    const struct gsp_sql_token tables = gsp_store__sql_token(sql, show.to);
    struct gsp_sql_token end = gsp_store__sql_token(sql, tables.to);
    if (end.kind == GSP_SQL_OTHER && sql.p[end.from] == ';')
        end = gsp_store__sql_token(sql, end.to);
    return gsp_store__sql_word_is(sql, show, "show") &&
           gsp_store__sql_word_is(sql, tables, "tables") && end.kind == GSP_SQL_END;
}

static int check_use(struct gsp_store *store, struct gsp_sv sql, struct gsp_err *err)
{
    if (!store->locked || store->open) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s",
                           store->locked ? "the rows of the last query were not freed"
                                         : "the store is not locked");
    }
    if (sql.len > SQL_BYTES_MAX) {
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the statement is longer than %u bytes",
                           SQL_BYTES_MAX);
    }
    if (sql.len > 0 && memchr(sql.p, '\0', sql.len))
        return gsp_err_set(err, GSP_E_USAGE, 0, "the statement contains a NUL");
    /* The engine would run some PRAGMAs when it parses them. */
    if (gsp_store__sql_is_pragma(sql))
        return not_allowed(true, err);
    return gsp_store__sql_check_calls(sql, err);
}

/* The read-only transaction is a second defence behind the check of the statement's type. */
static int begin_reading(struct statement *st, const char *run, bool explain, struct gsp_err *err)
{
    struct gsp_store *store = st->store;
    int rc = gsp_store__sql_run(store, "BEGIN TRANSACTION READ ONLY", err);
    if (rc != GSP_OK)
        return rc;
    gsp_store__watchdog_arm(&store->watch);
    rc = prepare(st, run, &st->prepared, err);
    if (rc == GSP_OK)
        rc = check_type(st, explain, err);
    gsp_store__watchdog_disarm(&store->watch);
    if (rc != GSP_OK)
        gsp_store__query_end(store);
    return rc;
}

/* Reads the rings. The time counts against the limit of the query. */
static int refresh_in_time(struct statement *st, struct gsp_err *err)
{
    struct gsp_store *store = st->store;
    gsp_store__watchdog_begin(&store->watch, store->timeout_ns);
    gsp_store__watchdog_arm(&store->watch);
    const int rc = refresh(store, st->sql, err);
    gsp_store__watchdog_disarm(&store->watch);
    return atomic_load(&store->watch.timed_out) ? timed_out(store, err) : rc;
}

static int begin(struct statement *st, bool explain, struct gsp_err *err)
{
    struct gsp_store *store = st->store;
    if (st->where)
        *st->where = (struct gsp_sql_error){0};
    int rc = check_use(store, st->sql, err);
    if (rc == GSP_OK && is_show_tables(st->sql))
        st->sql = gsp_sv_of(TABLES_SQL);
    if (rc == GSP_OK)
        rc = refresh_in_time(st, err);
    if (rc != GSP_OK)
        return rc;
    gsp_store__sql_qualify(st->sql, GSP_CATALOG, is_system_table, &store->catalog, &st->run);
    const char *run = gsp_buf_cstr(&st->run);
    if (!run)
        return gsp_err_nomem(err);
    rc = begin_reading(st, run, explain, err);
    bool created = false;
    if (rc == GSP_E_USAGE && gsp_store__views_create_all(store, &created, NULL) == GSP_OK &&
        created) {
        /* The statement may use a view that does not exist yet. With all views, the engine can
         * also suggest a similar name. */
        rc = begin_reading(st, run, explain, err);
    }
    return rc;
}

/* Warns if the result lacks rows between others. */
static void warn_missed(struct gsp_store *store)
{
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_store_table *view = store->catalog.views[i];
        uint64_t missed = 0;
        for (size_t k = 0; k < view->source_count; k++) {
            struct gsp_source *source = view->sources[k];
            const uint64_t rows = atomic_load(&source->rows_missed);
            missed += rows - source->rows_warned;
            source->rows_warned = rows;
        }
        if (missed > 0) {
            gsp_store_warn(store,
                           "%llu rows of %s.%s were overwritten during the query and are missing "
                           "from the result",
                           (unsigned long long)missed, view->schema, view->name);
        }
    }
}

/* Warns if the result lacks strings because a ring's dictionary is full. */
static void warn_nameless(struct gsp_store *store)
{
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_store_table *view = store->catalog.views[i];
        uint64_t nameless = 0;
        for (size_t k = 0; k < view->source_count; k++) {
            struct gsp_source *source = view->sources[k];
            struct gsp_source_loss loss;
            if (atomic_exchange(&source->strings_read, false) &&
                gsp_store__ring_loss(source, &loss)) {
                nameless += loss.strings_lost > source->strings_warned
                                ? loss.strings_lost - source->strings_warned
                                : 0;
                source->strings_warned = loss.strings_lost;
            }
        }
        gsp_store__warn_lost_strings(store, view->schema, view->name, nameless);
    }
}

void gsp_store__query_end(struct gsp_store *store)
{
    warn_missed(store);
    warn_nameless(store);
    /* Fails if the transaction has ended with an error. */
    gsp_ignore(gsp_store__sql_run(store, "ROLLBACK", NULL));
}

static void end_statement(struct statement *st)
{
    if (st->prepared)
        st->store->duck->destroy_prepare(&st->prepared);
    gsp_buf_free(&st->run);
}

/* Runs the engine's tasks on this thread. Sleeps while the other threads have all tasks, because
 * the engine itself would spin. */
static void run_tasks(const struct gsp_duckdb *duck, duckdb_pending_result pending)
{
    const struct timespec pause = {0, PAUSE_NS};
    for (;;) {
        const duckdb_pending_state state = duck->pending_execute_task(pending);
        if (state == DUCKDB_PENDING_NO_TASKS_AVAILABLE)
            (void)nanosleep(&pause, NULL);
        else if (state != DUCKDB_PENDING_RESULT_NOT_READY)
            return;
    }
}

static int execute(struct statement *st, duckdb_result *result, struct gsp_err *err)
{
    const struct gsp_duckdb *duck = st->store->duck;
    duckdb_pending_result pending = NULL;
    int rc = GSP_OK;
    gsp_store__watchdog_arm(&st->store->watch);
    if (duck->pending_prepared_streaming(st->prepared, &pending) != DuckDBSuccess) {
        gsp_store__watchdog_disarm(&st->store->watch);
        rc = engine_error(st, duck->pending_error(pending), DUCKDB_ERROR_INVALID, err);
        duck->destroy_pending(&pending);
        return rc;
    }
    run_tasks(duck, pending);
    const duckdb_state state = duck->execute_pending(pending, result);
    gsp_store__watchdog_disarm(&st->store->watch);
    if (state != DuckDBSuccess) {
        rc = engine_error(st, duck->result_error(result), duck->result_error_type(result), err);
        duck->destroy_result(result);
    }
    duck->destroy_pending(&pending);
    return rc;
}

int gsp_store_query_with(struct gsp_store *store, struct gsp_sv sql,
                         const struct gsp_params *params, struct gsp_rows **out,
                         struct gsp_sql_error *where, struct gsp_err *err)
{
    *out = NULL;
    struct statement st = {.store = store, .sql = sql, .where = where};
    int rc = begin(&st, true, err);
    if (rc == GSP_OK) {
        duckdb_result result;
        rc = gsp_store__params_bind(store->duck, st.prepared, params, err);
        if (rc == GSP_OK)
            rc = execute(&st, &result, err);
        if (rc == GSP_OK)
            rc = gsp_store__result_rows(store, &result, out, err);
        else
            gsp_store__query_end(store);
    }
    end_statement(&st);
    return rc;
}

int gsp_store_query(struct gsp_store *store, struct gsp_sv sql, struct gsp_rows **out,
                    struct gsp_sql_error *where, struct gsp_err *err)
{
    return gsp_store_query_with(store, sql, NULL, out, where, err);
}

/* COPY returns one row: the number of rows written. */
static uint64_t rows_written(const struct gsp_duckdb *duck, duckdb_result result)
{
    uint64_t rows = 0;
    duckdb_data_chunk chunk = duck->fetch_chunk(result);
    if (chunk && duck->data_chunk_get_size(chunk) == 1)
        memcpy(&rows, duck->vector_get_data(duck->data_chunk_get_vector(chunk, 0)), sizeof(rows));
    if (chunk)
        duck->destroy_data_chunk(&chunk);
    return rows;
}

static int copy_out(struct statement *st, uint64_t *rows, struct gsp_err *err)
{
    struct gsp_store *store = st->store;
    gsp_auto_buf sql = {0};
    gsp_store__sql_put_copy(store, gsp_buf_sv(&st->run), &sql);
    const char *text = gsp_buf_cstr(&sql);
    if (!text)
        return gsp_err_nomem(err);
    duckdb_result result;
    gsp_store__watchdog_arm(&store->watch);
    const duckdb_state state = store->duck->query(store->con, text, &result);
    gsp_store__watchdog_disarm(&store->watch);
    int rc = GSP_OK;
    if (state != DuckDBSuccess) {
        rc = engine_error(st, store->duck->result_error(&result),
                          store->duck->result_error_type(&result), err);
        (void)unlink(store->output_tmp);
    } else if (rows) {
        *rows = rows_written(store->duck, result);
    }
    store->duck->destroy_result(&result);
    return rc == GSP_OK ? gsp_store__output_commit(store, err) : rc;
}

int gsp_store_query_to_file(struct gsp_store *store, struct gsp_sv sql, uint64_t *rows,
                            struct gsp_sql_error *where, struct gsp_err *err)
{
    if (!store->output)
        return gsp_err_set(err, GSP_E_USAGE, 0, "no output is set");
    struct statement st = {.store = store, .sql = sql, .where = where};
    int rc = begin(&st, false, err);
    if (rc == GSP_OK) {
        store->duck->destroy_prepare(&st.prepared);
        gsp_store__query_end(store);
        rc = copy_out(&st, rows, err);
        warn_missed(store);
    }
    end_statement(&st);
    return rc;
}

void gsp_store_interrupt(struct gsp_store *store)
{
    gsp_store__watchdog_interrupt(&store->watch);
}
