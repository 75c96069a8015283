/* SPDX-License-Identifier: Apache-2.0 */
#include "store/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/attr.h"

#define VIEWS_MAX 4096U

void gsp_store__source_free(struct gsp_source *source)
{
    if (source) {
        source->ops->free(source);
        free(source->codes);
        free(source);
    }
}

static void free_view(const struct gsp_duckdb *duck, struct gsp_store_table *view)
{
    for (size_t i = 0; i < view->source_count; i++)
        gsp_store__source_free(view->sources[i]);
    for (uint32_t c = 0; c < view->column_count; c++)
        free(view->columns[c].doc);
    if (view->string_type)
        duck->destroy_logical_type(&view->string_type);
    gsp_buf_free(&view->parquet);
    free(view->sources);
    free(view->strings);
    free(view->string_bytes);
    free(view);
}

void gsp_store__catalog_free(struct gsp_store_catalog *catalog)
{
    for (size_t i = 0; i < catalog->view_count; i++)
        free_view(catalog->duck, catalog->views[i]);
    free(catalog->views);
    *catalog = (struct gsp_store_catalog){0};
}

struct gsp_store_table *gsp_store__table_find(const struct gsp_store_catalog *catalog,
                                              struct gsp_sv schema, struct gsp_sv name)
{
    for (size_t i = 0; i < catalog->view_count; i++) {
        struct gsp_store_table *view = catalog->views[i];
        if (gsp_sv_eq(gsp_sv_of(view->schema), schema) && gsp_sv_eq(gsp_sv_of(view->name), name))
            return view;
    }
    return NULL;
}

static struct gsp_store_column *find_column(struct gsp_store_table *view, const char *name)
{
    for (uint32_t c = 0; c < view->column_count; c++)
        if (strcmp(view->columns[c].name, name) == 0)
            return &view->columns[c];
    return NULL;
}

/* A column's description with its unit: "duration of the call (s)". */
static char *doc_of(const struct gsp_source_column *column)
{
    if (!column->doc || !*column->doc)
        return NULL;
    gsp_auto_buf text = {0};
    gsp_buf_puts(&text, column->doc);
    if (column->unit && *column->unit)
        gsp_buf_printf(&text, " (%s)", column->unit);
    const char *line = gsp_buf_cstr(&text);
    return line ? strdup(line) : NULL;
}

static int add_column(struct gsp_store_table *view, const struct gsp_source_column *column,
                      enum gsp_constant_column constant, struct gsp_err *err)
{
    if (find_column(view, column->name))
        return GSP_OK;
    if (view->column_count == GSP_SOURCE_COLUMNS_MAX) {
        return gsp_err_set(err, GSP_E_LIMIT, 0, "%s.%s has more than %u columns", view->schema,
                           view->name, GSP_SOURCE_COLUMNS_MAX);
    }
    struct gsp_store_column *new = &view->columns[view->column_count];
    const size_t len = strlen(column->name);
    if (len >= sizeof(new->name)) {
        return gsp_err_set(err, GSP_E_FORMAT, 0, "a column of %s.%s has a name of %zu bytes",
                           view->schema, view->name, len);
    }
    memcpy(new->name, column->name, len + 1);
    new->doc = doc_of(column);
    new->type = column->type;
    new->constant = constant;
    view->column_count++;
    view->stale = true;
    return GSP_OK;
}

/* ts_ns, host, pid and rank come before a table's own columns, in this order. */
static int add_common(struct gsp_store_table *view, enum gsp_scope scope, struct gsp_err *err)
{
    static const struct {
        struct gsp_source_column column;
        enum gsp_constant_column constant;
    } common[] = {
        {{"ts_ns", "time, CLOCK_REALTIME", "ns", GSP_I64}, GSP_CONST_NONE},
        {{"host", "name of the machine", NULL, GSP_STR}, GSP_CONST_HOST},
        {{"pid", "process id", NULL, GSP_I64}, GSP_CONST_PID},
        {{"rank", "rank of the process in a distributed job, if known", NULL, GSP_I64},
         GSP_CONST_RANK},
    };
    size_t count = scope == GSP_SCOPE_HOST ? 2 : GSP_COUNT(common);
    if (scope == GSP_SCOPE_PLAIN)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        const int rc = add_column(view, &common[i].column, common[i].constant, err);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

static int check_types(struct gsp_store_table *view, const struct gsp_source_column *columns,
                       size_t count, struct gsp_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct gsp_store_column *old = find_column(view, columns[i].name);
        if (old && old->type != columns[i].type) {
            return gsp_err_set(err, GSP_E_FORMAT, 0,
                               "column %s of %s.%s is %s here and %s elsewhere", columns[i].name,
                               view->schema, view->name, gsp_wire_type_name(columns[i].type),
                               gsp_wire_type_name(old->type));
        }
    }
    return GSP_OK;
}

/* Checks all types first: a source that does not fit adds no column. */
static int add_columns(struct gsp_store_table *view, const struct gsp_source_column *columns,
                       size_t count, enum gsp_scope scope, struct gsp_err *err)
{
    int rc = view->column_count == 0 ? add_common(view, scope, err) : GSP_OK;
    if (rc == GSP_OK)
        rc = check_types(view, columns, count, err);
    for (size_t i = 0; i < count && rc == GSP_OK; i++)
        if (strcmp(columns[i].name, "mono_ns") != 0)
            rc = add_column(view, &columns[i], GSP_CONST_NONE, err);
    return rc;
}

static struct gsp_source_column column_of_table(const struct gsp_column *column)
{
    return (struct gsp_source_column){column->name, column->doc, column->unit, column->type};
}

static int fill_view(struct gsp_store_table *view, const struct gsp_table *table,
                     struct gsp_err *err)
{
    view->table = table;
    view->stale = true;
    if (!table)
        return GSP_OK;
    struct gsp_source_column columns[GSP_COLUMNS_MAX];
    for (uint32_t c = 0; c < table->column_count && c < GSP_COLUMNS_MAX; c++)
        columns[c] = column_of_table(&table->columns[c]);
    return add_columns(view, columns, table->column_count, table->scope, err);
}

int gsp_store__table_get(struct gsp_store_catalog *catalog, const char *schema, const char *name,
                         struct gsp_store_table **out, struct gsp_err *err)
{
    *out = gsp_store__table_find(catalog, gsp_sv_of(schema), gsp_sv_of(name));
    if (*out)
        return GSP_OK;
    if (!gsp_wire_table_name_is_valid(gsp_sv_of(schema)) ||
        !gsp_wire_table_name_is_valid(gsp_sv_of(name)))
        return gsp_err_set(err, GSP_E_USAGE, 0, "invalid table name: %.60s.%.60s", schema, name);
    if (catalog->view_count == VIEWS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u tables", VIEWS_MAX);
    struct gsp_store_table *view = calloc(1, sizeof(*view));
    if (!view || !gsp_array_fit(&catalog->views, &catalog->view_cap, catalog->view_count + 1)) {
        free(view);
        return gsp_err_nomem(err);
    }
    memcpy(view->schema, schema, strlen(schema) + 1);
    memcpy(view->name, name, strlen(name) + 1);
    const int rc = fill_view(view, gsp_wire_table_find(schema, name), err);
    if (rc != GSP_OK) {
        free_view(catalog->duck, view);
        return rc;
    }
    catalog->views[catalog->view_count++] = view;
    *out = view;
    return GSP_OK;
}

/* Finds, for each column of the view, the source's column with the same name. */
static void map_columns(struct gsp_store_table *view, struct gsp_source *source,
                        const struct gsp_source_column *columns, size_t count)
{
    for (uint32_t c = 0; c < GSP_SOURCE_COLUMNS_MAX; c++)
        source->column_of[c] = -1;
    for (size_t i = 0; i < count; i++) {
        const struct gsp_store_column *column = find_column(view, columns[i].name);
        if (column)
            source->column_of[column - view->columns] = (int32_t)i;
    }
}

int gsp_store__table_add_source(struct gsp_store_table *view, struct gsp_source *source,
                                const struct gsp_source_column *columns, size_t count,
                                enum gsp_scope scope, struct gsp_err *err)
{
    const int rc = add_columns(view, columns, count, scope, err);
    if (rc != GSP_OK) {
        gsp_store__source_free(source);
        return rc;
    }
    map_columns(view, source, columns, count);
    if (!gsp_array_fit(&view->sources, &view->source_cap, view->source_count + 1)) {
        gsp_store__source_free(source);
        return gsp_err_nomem(err);
    }
    view->sources[view->source_count++] = source;
    return GSP_OK;
}

int gsp_store__table_add_batch(struct gsp_store_table *view, struct gsp_source *source,
                               const struct gsp_table *table, struct gsp_err *err)
{
    struct gsp_source_column columns[GSP_COLUMNS_MAX];
    if (table->column_count > GSP_COLUMNS_MAX) {
        gsp_store__source_free(source);
        return gsp_err_set(err, GSP_E_LIMIT, 0, "%s.%s has too many columns", table->schema,
                           table->name);
    }
    for (uint32_t c = 0; c < table->column_count; c++)
        columns[c] = column_of_table(&table->columns[c]);
    return gsp_store__table_add_source(view, source, columns, table->column_count, table->scope,
                                       err);
}

static void drop_live(struct gsp_store_table *view)
{
    size_t kept = 0;
    for (size_t i = 0; i < view->source_count; i++)
        if (view->sources[i] != view->live)
            view->sources[kept++] = view->sources[i];
    view->source_count = kept;
    gsp_store__source_free(view->live);
    view->live = NULL;
}

int gsp_store__live_replace(const struct gsp_duckdb *duck, struct gsp_store_table *view,
                            struct gsp_batch *batch, struct gsp_err *err)
{
    drop_live(view);
    struct gsp_source *source = NULL;
    int rc = gsp_store__batch_source_new(batch, NULL, &source, err);
    if (rc == GSP_OK)
        rc = gsp_store__table_add_batch(view, source, view->table, err);
    if (rc != GSP_OK)
        return rc;
    view->live = source;
    bool changed = false;
    rc = source->ops->refresh(source, NULL, &changed, err);
    return rc == GSP_OK ? gsp_store__table_merge_strings(duck, view, err) : rc;
}

int gsp_store__spans_add(struct gsp_spans *spans, struct gsp_source_span span, struct gsp_err *err)
{
    if (!gsp_array_fit(&spans->at, &spans->cap, spans->count + 1))
        return gsp_err_nomem(err);
    spans->at[spans->count++] = span;
    return GSP_OK;
}
