/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "store/macros.h"
#include "store/scan.h"
#include "store/sql_text.h"
#include "store/store_internal.h"

static void put_view_name(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    gsp_buf_puts(sql, GSP_CATALOG ".");
    gsp_store__sql_put_name(sql, view->schema);
    gsp_buf_putc(sql, '.');
    gsp_store__sql_put_name(sql, view->name);
}

static void put_scan(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    gsp_buf_printf(sql, "FROM " GSP_SCAN_NAME "('%s.%s')", view->schema, view->name);
}

/* Casts ENUMs to VARCHAR: Parquet files have text, and the engine must not choose the ENUM as the
 * type of the union's column. */
static void put_select(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    gsp_buf_puts(sql, "SELECT ");
    for (uint32_t c = 0; c < view->column_count; c++) {
        gsp_buf_puts(sql, c ? ", " : "");
        gsp_store__sql_put_name(sql, view->columns[c].name);
        if (view->columns[c].type == GSP_STR && view->string_type) {
            gsp_buf_puts(sql, "::VARCHAR AS ");
            gsp_store__sql_put_name(sql, view->columns[c].name);
        }
    }
    gsp_buf_putc(sql, ' ');
}

static void put_parquet(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    gsp_buf_puts(sql, "FROM read_parquet([");
    gsp_buf_putsv(sql, gsp_buf_sv(&view->parquet));
    gsp_buf_puts(sql, "], union_by_name = true)");
}

static void put_rows(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    if (view->parquet.len == 0) {
        put_scan(sql, view);
    } else if (view->column_count == 0) {
        put_parquet(sql, view);
    } else {
        put_select(sql, view);
        put_scan(sql, view);
        gsp_buf_puts(sql, " UNION ALL BY NAME ");
        put_parquet(sql, view);
    }
}

/* Shows each frame of python.stack once, or joins would count it several times: several sources may
 * have the same stack, and a writer repeats a stack before its ring overwrites it. Uses GROUP BY,
 * so that the engine reads only the columns that a query needs. */
static void put_stack_rows(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    gsp_buf_puts(sql, "SELECT stack_id, depth");
    for (uint32_t c = 0; c < view->column_count; c++) {
        const char *name = view->columns[c].name;
        if (strcmp(name, "stack_id") == 0 || strcmp(name, "depth") == 0)
            continue;
        gsp_buf_puts(sql, ", any_value(");
        gsp_store__sql_put_name(sql, name);
        gsp_buf_puts(sql, ") AS ");
        gsp_store__sql_put_name(sql, name);
    }
    gsp_buf_puts(sql, " FROM (");
    put_rows(sql, view);
    gsp_buf_puts(sql, ") GROUP BY stack_id, depth");
}

static void put_view(struct gsp_buf *sql, const struct gsp_store_table *view)
{
    gsp_buf_puts(sql, "CREATE OR REPLACE VIEW ");
    put_view_name(sql, view);
    gsp_buf_puts(sql, " AS ");
    if (view->table == gsp_wire_table_at(GSP_TABLE_python_stack))
        put_stack_rows(sql, view);
    else
        put_rows(sql, view);
    gsp_buf_puts(sql, ";\n");
}

static bool is_stale(const struct gsp_store_table *view)
{
    return view->needed && view->stale && (view->column_count > 0 || view->parquet.len > 0);
}

/* Appends the statement that creates the schema, before the first view of the schema. */
static void put_schema(struct gsp_buf *sql, const struct gsp_store_catalog *catalog, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_stale(catalog->views[k]) &&
            strcmp(catalog->views[k]->schema, catalog->views[i]->schema) == 0)
            return;
    gsp_buf_puts(sql, "CREATE SCHEMA IF NOT EXISTS " GSP_CATALOG ".");
    gsp_store__sql_put_name(sql, catalog->views[i]->schema);
    gsp_buf_puts(sql, ";\n");
}

static int run_buf(struct gsp_store *store, struct gsp_buf *sql, struct gsp_err *err)
{
    const char *text = gsp_buf_cstr(sql);
    return text ? gsp_store__sql_run(store, text, err) : gsp_err_nomem(err);
}

/* Creates the views one by one. Leaves out files that do not fit their table. */
static int make_each(struct gsp_store *store, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < store->catalog.view_count; i++) {
        struct gsp_store_table *view = store->catalog.views[i];
        struct gsp_err why = {0};
        gsp_auto_buf sql = {0};
        if (!is_stale(view))
            continue;
        put_view(&sql, view);
        rc = run_buf(store, &sql, &why);
        if (rc != GSP_OK && view->parquet.len > 0) {
            gsp_store_warn(store, "left out: the files of %s.%s: %s", view->schema, view->name,
                           why.msg);
            gsp_buf_clear(&view->parquet);
            gsp_buf_clear(&sql);
            put_view(&sql, view);
            rc = view->column_count > 0 ? run_buf(store, &sql, &why) : GSP_OK;
        }
        if (rc != GSP_OK)
            gsp_err_fill(err, rc, why.sys, "%s", why.msg);
    }
    return rc;
}

static int make_needed(struct gsp_store *store, bool *created, struct gsp_err *err)
{
    const struct gsp_store_catalog *catalog = &store->catalog;
    gsp_auto_buf sql = {0};
    for (size_t i = 0; i < catalog->view_count; i++)
        if (is_stale(catalog->views[i]))
            put_schema(&sql, catalog, i);
    for (size_t i = 0; i < catalog->view_count; i++)
        if (is_stale(catalog->views[i]))
            put_view(&sql, catalog->views[i]);
    if (sql.len == 0 && !sql.failed)
        return GSP_OK;
    *created = true;
    int rc = run_buf(store, &sql, err);
    if (rc != GSP_OK && rc != GSP_E_NOMEM)
        rc = make_each(store, err);
    for (size_t i = 0; rc == GSP_OK && i < catalog->view_count; i++)
        catalog->views[i]->stale = catalog->views[i]->stale && !catalog->views[i]->needed;
    store->commented = false;
    return rc;
}

/* Whether a statement may list tables, or uses some through a macro. */
static bool needs_all(struct gsp_sv sql)
{
    static const char *const starts[] = {
        "information_schema", "duckdb_", "pg_", "sqlite_", "show", "desc", "tables", "comment"};
    struct gsp_macro macro;
    for (size_t i = 0; gsp_store__macro_at(i, &macro); i++)
        if (gsp_store__macro_is_used(sql, macro.name))
            return true;
    for (struct gsp_sql_token token = gsp_store__sql_token(sql, 0); token.kind != GSP_SQL_END;
         token = gsp_store__sql_token(sql, token.to)) {
        const size_t len = token.to - token.from;
        for (size_t i = 0; token.kind == GSP_SQL_WORD && i < GSP_COUNT(starts); i++)
            if (len >= strlen(starts[i]) &&
                strncasecmp(sql.p + token.from, starts[i], strlen(starts[i])) == 0)
                return true;
    }
    return false;
}

/* Finds names in strings too: query_table('python.torch_trace'). */
static bool contains(struct gsp_sv sql, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i + len <= sql.len; i++)
        if (strncasecmp(sql.p + i, name, len) == 0)
            return true;
    return false;
}

int gsp_store__views_create(struct gsp_store *store, struct gsp_sv sql, struct gsp_err *err)
{
    const bool all = needs_all(sql);
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        struct gsp_store_table *view = store->catalog.views[i];
        view->needed = all || contains(sql, view->name);
    }
    bool created = false;
    const int rc = gsp_store__refresh(store, err);
    return rc == GSP_OK ? make_needed(store, &created, err) : rc;
}

int gsp_store__views_create_all(struct gsp_store *store, bool *created, struct gsp_err *err)
{
    *created = false;
    for (size_t i = 0; i < store->catalog.view_count; i++)
        store->catalog.views[i]->needed = true;
    const int rc = gsp_store__refresh(store, err);
    return rc == GSP_OK ? make_needed(store, created, err) : rc;
}

int gsp_store__views_create_parquet(struct gsp_store *store, struct gsp_err *err)
{
    bool created = false;
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        struct gsp_store_table *view = store->catalog.views[i];
        view->needed = view->needed || view->parquet.len > 0;
    }
    return make_needed(store, &created, err);
}

static void put_comment(struct gsp_buf *sql, const struct gsp_store_table *view,
                        const struct gsp_store_column *column, const char *text)
{
    if (!text)
        return;
    gsp_buf_puts(sql, column ? "COMMENT ON COLUMN " : "COMMENT ON VIEW ");
    put_view_name(sql, view);
    if (column) {
        gsp_buf_putc(sql, '.');
        gsp_store__sql_put_name(sql, column->name);
    }
    gsp_buf_puts(sql, " IS ");
    gsp_store__sql_put_string(sql, gsp_sv_of(text));
    gsp_buf_puts(sql, ";\n");
}

int gsp_store__comments_create(struct gsp_store *store, struct gsp_err *err)
{
    if (store->commented)
        return GSP_OK;
    gsp_auto_buf sql = {0};
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_store_table *view = store->catalog.views[i];
        put_comment(&sql, view, NULL, view->table ? view->table->doc : NULL);
        for (uint32_t c = 0; c < view->column_count; c++)
            put_comment(&sql, view, &view->columns[c], view->columns[c].doc);
    }
    const char *text = gsp_buf_cstr(&sql);
    if (!text)
        return gsp_err_nomem(err);
    const int rc = gsp_store__sql_run(store, text, err);
    store->commented = rc == GSP_OK;
    return rc;
}
