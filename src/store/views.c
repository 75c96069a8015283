/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "store/scan.h"
#include "store/sql_text.h"
#include "store/store_internal.h"

static void put_view_name(struct gsp_buf *sql, const struct gsp_view *view)
{
    gsp_buf_puts(sql, GSP_CATALOG ".");
    gsp_store__sql_name(sql, view->schema);
    gsp_buf_putc(sql, '.');
    gsp_store__sql_name(sql, view->name);
}

static void put_scan(struct gsp_buf *sql, const struct gsp_view *view)
{
    gsp_buf_printf(sql, "FROM " GSP_SCAN_NAME "('%s.%s')", view->schema, view->name);
}

/* Rows in files have strings as text; all branches of the union say so, lest an ENUM be taken
 * for the type of the column. */
static void put_select(struct gsp_buf *sql, const struct gsp_view *view)
{
    gsp_buf_puts(sql, "SELECT ");
    for (uint32_t c = 0; c < view->column_count; c++) {
        gsp_buf_puts(sql, c ? ", " : "");
        gsp_store__sql_name(sql, view->columns[c].name);
        if (view->columns[c].type == GSP_STR && view->string_type) {
            gsp_buf_puts(sql, "::VARCHAR AS ");
            gsp_store__sql_name(sql, view->columns[c].name);
        }
    }
    gsp_buf_putc(sql, ' ');
}

static void put_parquet(struct gsp_buf *sql, const struct gsp_view *view)
{
    gsp_buf_puts(sql, "FROM read_parquet([");
    gsp_buf_putsv(sql, gsp_buf_sv(&view->parquet));
    gsp_buf_puts(sql, "], union_by_name = true)");
}

static void put_view(struct gsp_buf *sql, const struct gsp_view *view)
{
    gsp_buf_puts(sql, "CREATE OR REPLACE VIEW ");
    put_view_name(sql, view);
    gsp_buf_puts(sql, " AS ");
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
    gsp_buf_puts(sql, ";\n");
}

int gsp_store__views(struct gsp_store *store, struct gsp_err *err)
{
    gsp_auto_buf sql = {0};
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_view *view = store->catalog.views[i];
        if (view->stale && (view->column_count > 0 || view->parquet.len > 0)) {
            put_view(&sql, view);
        }
    }
    if (sql.len == 0 && !sql.failed) {
        return GSP_OK;
    }
    const char *text = gsp_buf_cstr(&sql);
    if (!text) {
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for the views");
    }
    const int rc = gsp_store__run(store, text, err);
    for (size_t i = 0; rc == GSP_OK && i < store->catalog.view_count; i++) {
        store->catalog.views[i]->stale = false;
    }
    store->commented = false;
    return rc;
}

static void put_comment(struct gsp_buf *sql, const struct gsp_view *view,
                        const struct gsp_view_column *column, const char *text)
{
    if (!text) {
        return;
    }
    gsp_buf_puts(sql, column ? "COMMENT ON COLUMN " : "COMMENT ON VIEW ");
    put_view_name(sql, view);
    if (column) {
        gsp_buf_putc(sql, '.');
        gsp_store__sql_name(sql, column->name);
    }
    gsp_buf_puts(sql, " IS ");
    gsp_store__sql_quote(sql, gsp_sv_of(text));
    gsp_buf_puts(sql, ";\n");
}

int gsp_store__comments(struct gsp_store *store, struct gsp_err *err)
{
    if (store->commented) {
        return GSP_OK;
    }
    gsp_auto_buf sql = {0};
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_view *view = store->catalog.views[i];
        put_comment(&sql, view, NULL, view->table ? view->table->doc : NULL);
        for (uint32_t c = 0; c < view->column_count; c++) {
            put_comment(&sql, view, &view->columns[c], view->columns[c].doc);
        }
    }
    const char *text = gsp_buf_cstr(&sql);
    if (!text) {
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for the views");
    }
    const int rc = gsp_store__run(store, text, err);
    store->commented = rc == GSP_OK;
    return rc;
}
