/* SPDX-License-Identifier: Apache-2.0 */
#include "store/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/attr.h"
#include "store/batch.h"
#include "store/copy_column.h"

/* One use of the table function in a statement. */
struct bound {
    struct gsp_store *store;
    struct gsp_store_table *view;
    struct gsp_time_range range;
};

/* A span of a source. Its rows are returned in chunks of the engine. */
struct piece {
    struct gsp_source *source;
    struct gsp_source_span span;
    uint64_t first_chunk;          /* number of chunks of the pieces before */
    _Atomic uint64_t first_copied; /* first row that was copied; UINT64_MAX: none */
    _Atomic uint64_t missing;      /* rows that were overwritten before they were copied */
};

struct scan {
    const struct bound *bound;
    struct piece *pieces;
    size_t piece_count;
    size_t piece_cap;
    uint64_t chunk_count;
    uint64_t chunk_rows;
    uint32_t *columns; /* of the view, in the order of the query */
    uint64_t column_count;
    _Atomic uint64_t next_chunk;
};

/* The engine, for the callbacks, which have no other context. It is loaded only once. */
static const struct gsp_duckdb *scan_duck;

static bool read_time(const struct gsp_duckdb *duck, duckdb_bind_info info, const char *name,
                      int64_t *out)
{
    duckdb_value value = duck->bind_get_named_parameter(info, name);
    if (!value)
        return true;
    const bool null = duck->is_null_value(value);
    if (!null)
        *out = duck->get_int64(value);
    duck->destroy_value(&value);
    return !null;
}

static struct gsp_store_table *view_of(const struct gsp_store *store, duckdb_bind_info info)
{
    const struct gsp_duckdb *duck = store->duck;
    duckdb_value value = duck->bind_get_parameter(info, 0);
    char *text = value && !duck->is_null_value(value) ? duck->get_varchar(value) : NULL;
    struct gsp_store_table *view = NULL;
    if (text) {
        struct gsp_sv name = gsp_sv_of(text);
        struct gsp_sv schema = {NULL, 0};
        if (gsp_sv_split(&name, '.', &schema) && name.p)
            view = gsp_store__table_find(&store->catalog, schema, name);
        duck->free(text);
    }
    if (value)
        duck->destroy_value(&value);
    return view;
}

static void add_result_column(const struct gsp_duckdb *duck, duckdb_bind_info info,
                              const struct gsp_store_table *view,
                              const struct gsp_store_column *column)
{
    static const duckdb_type types[] = {
        [GSP_I64] = DUCKDB_TYPE_BIGINT,   [GSP_F64] = DUCKDB_TYPE_DOUBLE,
        [GSP_BOOL] = DUCKDB_TYPE_BOOLEAN, [GSP_STR] = DUCKDB_TYPE_VARCHAR,
        [GSP_TEXT] = DUCKDB_TYPE_VARCHAR,
    };
    if (column->type == GSP_STR && view->string_type) {
        duck->bind_add_result_column(info, column->name, view->string_type);
        return;
    }
    duckdb_logical_type type = duck->create_logical_type(types[column->type]);
    duck->bind_add_result_column(info, column->name, type);
    duck->destroy_logical_type(&type);
}

static void bind(duckdb_bind_info info)
{
    struct gsp_store *store = scan_duck->bind_get_extra_info(info);
    const struct gsp_duckdb *duck = store->duck;
    struct gsp_store_table *view = view_of(store, info);
    if (!view || view->column_count == 0) {
        duck->bind_set_error(info, GSP_SCAN_NAME " needs the name of a table: 'schema.table'");
        return;
    }
    struct bound *bound = calloc(1, sizeof(*bound));
    if (!bound) {
        duck->bind_set_error(info, "out of memory");
        return;
    }
    *bound = (struct bound){store, view, {INT64_MIN, INT64_MAX}};
    duck->bind_set_bind_data(info, bound, free);
    if (!read_time(duck, info, "ts_from", &bound->range.from_ns) ||
        !read_time(duck, info, "ts_to", &bound->range.to_ns)) {
        duck->bind_set_error(info, "ts_from and ts_to cannot be NULL");
        return;
    }
    for (uint32_t c = 0; c < view->column_count; c++)
        add_result_column(duck, info, view, &view->columns[c]);
    uint64_t rows = 0;
    for (size_t i = 0; i < view->source_count; i++)
        rows += view->sources[i]->row_count;
    duck->bind_set_cardinality(info, rows, false);
}

/* Returns the number of rows missing after the first copied row. Rows before it do not count: they
 * are old rows that the ring had to overwrite. If no row was copied, all missing rows count. */
static uint64_t count_holes(const struct piece *piece)
{
    const uint64_t missing = atomic_load_explicit(&piece->missing, memory_order_relaxed);
    const uint64_t first = atomic_load_explicit(&piece->first_copied, memory_order_relaxed);
    return first == UINT64_MAX ? missing : missing - (first - piece->span.from);
}

static void free_scan(void *arg)
{
    struct scan *scan = arg;
    for (size_t i = 0; i < scan->piece_count; i++) {
        atomic_fetch_add_explicit(&scan->pieces[i].source->rows_missed,
                                  count_holes(&scan->pieces[i]), memory_order_relaxed);
    }
    free(scan->pieces);
    free(scan->columns);
    free(scan);
}

static int make_batch(const struct gsp_store *store, struct gsp_store_table *view,
                      struct gsp_batch **out, struct gsp_err *err)
{
    const char *host = store->host[0] ? store->host : NULL;
    const int rc = gsp_store_batch_new(view->table, host, GSP_NULL_I64, GSP_NULL_I64, out, err);
    if (rc != GSP_OK)
        return rc;
    return view->fill(view->fill_ctx, *out, err);
}

/* Fills a live table, once in each query. */
static int fill_live(struct gsp_store *store, struct gsp_store_table *view, struct gsp_err *err)
    GSP_REQUIRES(&store->fill_lock);
static int fill_live(struct gsp_store *store, struct gsp_store_table *view, struct gsp_err *err)
{
    if (!view->fill || view->live_query == store->query_number)
        return GSP_OK;
    struct gsp_batch *batch = NULL;
    int rc = make_batch(store, view, &batch, err);
    if (rc != GSP_OK) {
        gsp_store_batch_free(batch);
        return rc;
    }
    rc = gsp_store__live_replace(store->duck, view, batch, err);
    if (rc == GSP_OK)
        view->live_query = store->query_number;
    return rc;
}

static int add_pieces(struct scan *scan, struct gsp_source *source, const struct gsp_spans *spans,
                      struct gsp_err *err)
{
    if (spans->count == 0)
        return GSP_OK;
    if (!gsp_array_fit(&scan->pieces, &scan->piece_cap, scan->piece_count + spans->count))
        return gsp_err_nomem(err);
    for (size_t i = 0; i < spans->count; i++) {
        scan->pieces[scan->piece_count++] = (struct piece){.source = source,
                                                           .span = spans->at[i],
                                                           .first_chunk = scan->chunk_count,
                                                           .first_copied = UINT64_MAX};
        scan->chunk_count +=
            (spans->at[i].to - spans->at[i].from + scan->chunk_rows - 1) / scan->chunk_rows;
    }
    return GSP_OK;
}

static int plan(struct scan *scan, struct gsp_err *err)
{
    const struct gsp_store_table *view = scan->bound->view;
    struct gsp_spans spans = {0};
    int rc = GSP_OK;
    for (size_t i = 0; i < view->source_count && rc == GSP_OK; i++) {
        struct gsp_source *source = view->sources[i];
        spans.count = 0;
        rc = source->ops->select(source, &scan->bound->range, &spans, err);
        if (rc == GSP_OK)
            rc = add_pieces(scan, source, &spans, err);
    }
    free(spans.at);
    return rc;
}

/* Marks the sources if the query reads a string column. The query then warns about strings that a
 * full dictionary lost. */
static void mark_strings_read(const struct scan *scan)
{
    const struct gsp_store_table *view = scan->bound->view;
    bool reads = false;
    for (uint64_t i = 0; i < scan->column_count && !reads; i++) {
        const uint32_t column = scan->columns[i];
        reads = column != UINT32_MAX && view->columns[column].type == GSP_STR &&
                view->columns[column].constant == GSP_CONST_NONE;
    }
    for (size_t i = 0; i < scan->piece_count && reads; i++)
        atomic_store_explicit(&scan->pieces[i].source->strings_read, true, memory_order_relaxed);
}

static int prepare(struct scan *scan, struct gsp_err *err)
{
    struct gsp_store *store = scan->bound->store;
    gsp_lock_take(&store->fill_lock);
    int rc = fill_live(store, scan->bound->view, err);
    if (rc != GSP_OK && err)
        store->fill_err = *err;
    gsp_lock_release(&store->fill_lock);
    return rc == GSP_OK ? plan(scan, err) : rc;
}

static void init(duckdb_init_info info)
{
    const struct gsp_duckdb *duck = scan_duck;
    struct bound *bound = duck->init_get_bind_data(info);
    struct scan *scan = calloc(1, sizeof(*scan));
    const idx_t count = duck->init_get_column_count(info);
    uint32_t *columns = calloc(count + 1, sizeof(*columns));
    if (!scan || !columns) {
        free(scan);
        free(columns);
        duck->init_set_error(info, "out of memory");
        return;
    }
    scan->bound = bound;
    scan->columns = columns;
    scan->column_count = count;
    scan->chunk_rows = duck->vector_size();
    for (idx_t i = 0; i < count; i++) {
        /* For count(*), which needs no column, the engine passes an invalid index. */
        const idx_t column = duck->init_get_column_index(info, i);
        columns[i] = column < bound->view->column_count ? (uint32_t)column : UINT32_MAX;
    }
    duck->init_set_init_data(info, scan, free_scan);
    struct gsp_err err = {0};
    if (prepare(scan, &err) != GSP_OK) {
        duck->init_set_error(info, err.msg);
        return;
    }
    mark_strings_read(scan);
    const uint64_t threads = bound->store->threads;
    duck->init_set_max_threads(info, scan->chunk_count < threads ? scan->chunk_count + 1 : threads);
}

/* Returns the last piece that starts at or before the chunk. */
static struct piece *piece_of(const struct scan *scan, uint64_t chunk)
{
    size_t low = 0;
    size_t high = scan->piece_count;
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        if (scan->pieces[mid].first_chunk <= chunk)
            low = mid;
        else
            high = mid;
    }
    return &scan->pieces[low];
}

static void lower_first_copied(struct piece *piece, uint64_t row)
{
    uint64_t first = atomic_load_explicit(&piece->first_copied, memory_order_relaxed);
    while (row < first &&
           !atomic_compare_exchange_weak_explicit(&piece->first_copied, &first, row,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Copies rows, again if some were overwritten meanwhile; those are left out and counted. Returns
 * the number of rows. */
static uint64_t copy_rows(const struct scan *scan, struct piece *piece, struct gsp_source_span span,
                          duckdb_data_chunk chunk)
{
    const struct gsp_store_table *view = scan->bound->view;
    const struct gsp_source *source = piece->source;
    while (span.from < span.to) {
        for (uint64_t i = 0; i < scan->column_count; i++) {
            if (scan->columns[i] != UINT32_MAX) {
                gsp_store__copy_column(scan->bound->store->duck, view, source,
                                       &(struct gsp_column_copy){scan->columns[i], span},
                                       scan->bound->store->duck->data_chunk_get_vector(chunk, i));
            }
        }
        const uint64_t oldest = source->ops->oldest(source, span.lane);
        if (oldest <= span.from) {
            lower_first_copied(piece, span.from);
            return span.to - span.from;
        }
        const uint64_t next = oldest < span.to ? oldest : span.to;
        atomic_fetch_add_explicit(&piece->missing, next - span.from, memory_order_relaxed);
        span.from = next;
    }
    return 0;
}

static void scan_chunk(duckdb_function_info info, duckdb_data_chunk out)
{
    const struct gsp_duckdb *duck = scan_duck;
    struct scan *scan = duck->function_get_init_data(info);
    uint64_t rows = 0;
    while (rows == 0) {
        /* Relaxed: the threads only need different numbers. */
        const uint64_t chunk =
            atomic_fetch_add_explicit(&scan->next_chunk, 1, memory_order_relaxed);
        if (chunk >= scan->chunk_count)
            break;
        struct piece *piece = piece_of(scan, chunk);
        struct gsp_source_span span = piece->span;
        span.from += (chunk - piece->first_chunk) * scan->chunk_rows;
        if (span.to - span.from > scan->chunk_rows)
            span.to = span.from + scan->chunk_rows;
        rows = copy_rows(scan, piece, span, out);
    }
    duck->data_chunk_set_size(out, rows);
}

int gsp_store__scan_register(struct gsp_store *store, struct gsp_err *err)
{
    const struct gsp_duckdb *duck = store->duck;
    scan_duck = duck;
    duckdb_table_function function = duck->create_table_function();
    duckdb_logical_type text = duck->create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_logical_type number = duck->create_logical_type(DUCKDB_TYPE_BIGINT);
    duck->table_function_set_name(function, GSP_SCAN_NAME);
    duck->table_function_add_parameter(function, text);
    duck->table_function_add_named_parameter(function, "ts_from", number);
    duck->table_function_add_named_parameter(function, "ts_to", number);
    duck->table_function_set_extra_info(function, store, NULL);
    duck->table_function_set_bind(function, bind);
    duck->table_function_set_init(function, init);
    duck->table_function_set_function(function, scan_chunk);
    duck->table_function_supports_projection_pushdown(function, true);
    const duckdb_state state = duck->register_table_function(store->con, function);
    duck->destroy_table_function(&function);
    duck->destroy_logical_type(&text);
    duck->destroy_logical_type(&number);
    return state == DuckDBSuccess
               ? GSP_OK
               : gsp_err_set(err, GSP_E_NOTSUP, 0, "the SQL engine rejected the table function");
}
