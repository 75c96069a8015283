/* SPDX-License-Identifier: Apache-2.0 */
#include "store/result.h"

#include <stdlib.h>
#include <string.h>

#include "store/value.h"

/* A result column: the engine's vector itself, or values converted from it. */
struct column {
    struct gsp_vtype type;
    enum gsp_cell_kind kind;
    char *name;
    void *values; /* converted, one for each row of a chunk; NULL: the vector's own are used */
    struct gsp_buf text;
};

struct result_rows {
    struct gsp_rows base;
    struct gsp_store *store;
    const struct gsp_duckdb *duck;
    duckdb_result result;
    duckdb_data_chunk chunk;
    struct column *columns;
    struct gsp_rows_column *about;
    struct gsp_values *views;
    uint64_t returned; /* rows */
    bool ended;
};

static enum gsp_cell_kind kind_of(const struct gsp_vtype *type)
{
    switch ((unsigned)type->id) {
    case DUCKDB_TYPE_BOOLEAN:
        return GSP_CELL_BOOL;
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
        return GSP_CELL_I64;
    case DUCKDB_TYPE_UBIGINT:
    case DUCKDB_TYPE_HUGEINT:
        return GSP_CELL_I128;
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_DECIMAL:
        return GSP_CELL_F64;
    case DUCKDB_TYPE_ENUM:
        return GSP_CELL_DICT;
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_ARRAY:
    case DUCKDB_TYPE_STRUCT:
    case DUCKDB_TYPE_MAP:
    case DUCKDB_TYPE_UNION:
        return GSP_CELL_JSON;
    default:
        return type->is_json ? GSP_CELL_JSON : GSP_CELL_TEXT;
    }
}

static size_t width_of(enum gsp_cell_kind kind)
{
    static const uint8_t widths[] = {
        [GSP_CELL_I64] = sizeof(int64_t),        [GSP_CELL_I128] = sizeof(struct gsp_i128),
        [GSP_CELL_F64] = sizeof(double),         [GSP_CELL_BOOL] = sizeof(uint8_t),
        [GSP_CELL_TEXT] = sizeof(struct gsp_sv), [GSP_CELL_JSON] = sizeof(struct gsp_sv),
        [GSP_CELL_DICT] = sizeof(uint32_t),
    };
    return widths[kind];
}

/* Whether the vector's array already has the type of the kind. */
static bool is_direct(const struct column *column)
{
    switch ((unsigned)column->type.id) {
    case DUCKDB_TYPE_BOOLEAN:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_HUGEINT:
        return true; /* struct gsp_i128 has the engine's layout */
    case DUCKDB_TYPE_ENUM:
        return column->type.inner == DUCKDB_TYPE_UINTEGER;
    default:
        return false;
    }
}

static void make_number(struct column *column, const struct gsp_cell *cell)
{
    switch (column->kind) {
    case GSP_CELL_I64:
        ((int64_t *)column->values)[cell->row] = gsp_store__cell_i64(cell);
        break;
    case GSP_CELL_F64:
        ((double *)column->values)[cell->row] = gsp_store__cell_f64(cell);
        break;
    case GSP_CELL_I128:
        ((struct gsp_i128 *)column->values)[cell->row] =
            (struct gsp_i128){(uint64_t)gsp_store__cell_i64(cell), 0};
        break;
    case GSP_CELL_DICT: {
        const uint32_t id = column->type.inner == DUCKDB_TYPE_UTINYINT
                                ? ((const uint8_t *)cell->data)[cell->row]
                                : ((const uint16_t *)cell->data)[cell->row];
        ((uint32_t *)column->values)[cell->row] = id;
        break;
    }
    case GSP_CELL_BOOL:
    case GSP_CELL_TEXT:
    case GSP_CELL_JSON:
        break;
    }
}

static bool is_null(const uint64_t *valid, size_t row)
{
    return valid && ((valid[row / 64] >> (row % 64)) & 1) == 0;
}

/* Text of a VARCHAR vector is borrowed. Other text is formatted into one buffer; the pointers are
 * set at the end because the buffer moves while it grows. */
static bool make_texts(struct column *column, struct gsp_cell *cell, size_t count,
                       const uint64_t *valid)
{
    struct gsp_sv *out = column->values;
    const bool borrowed = column->type.id == DUCKDB_TYPE_VARCHAR;
    gsp_buf_clear(&column->text);
    for (size_t i = 0; i < count; i++) {
        cell->row = i;
        out[i] = (struct gsp_sv){"", 0};
        if (is_null(valid, i) || column->type.id == DUCKDB_TYPE_SQLNULL)
            continue;
        if (borrowed) {
            out[i] = gsp_store__cell_bytes(cell);
            continue;
        }
        const size_t before = column->text.len;
        if (column->kind == GSP_CELL_JSON) {
            struct gsp_json json;
            gsp_json_init(&json, &column->text);
            gsp_store__cell_json(cell, &json);
        } else {
            gsp_store__cell_text(cell, &column->text);
        }
        out[i].len = column->text.len - before;
    }
    size_t pos = 0;
    for (size_t i = 0; !borrowed && i < count; i++) {
        out[i].p = column->text.p ? column->text.p + pos : "";
        pos += out[i].len;
    }
    return !column->text.failed;
}

static bool make_values(struct column *column, duckdb_vector vector, size_t count,
                        struct gsp_values *out)
{
    const struct gsp_duckdb *duck = column->type.duck;
    struct gsp_cell cell = {&column->type, vector, duck->vector_get_data(vector), 0};
    *out = (struct gsp_values){cell.data, duck->vector_get_validity(vector)};
    if (!column->values)
        return true;
    out->data = column->values;
    if (column->kind == GSP_CELL_TEXT || column->kind == GSP_CELL_JSON)
        return make_texts(column, &cell, count, out->valid);
    for (size_t i = 0; i < count; i++) {
        cell.row = i;
        if (is_null(out->valid, i))
            memset((char *)column->values + i * width_of(column->kind), 0, width_of(column->kind));
        else
            make_number(column, &cell);
    }
    return true;
}

/* A validity mask without a valid row, for a column of the type NULL, whose vector has none. */
static const uint64_t *none_valid(void)
{
    static const uint64_t words[2048 / 64];
    return words;
}

static int fetch(struct result_rows *rows, struct gsp_err *err)
{
    struct gsp_query_watchdog *watch = &rows->store->watch;
    if (rows->chunk) {
        rows->duck->destroy_data_chunk(&rows->chunk);
        rows->chunk = NULL;
    }
    if (atomic_load(&watch->interrupted))
        return gsp_err_set(err, GSP_E_INTR, 0, "the query was interrupted");
    gsp_store__watchdog_arm(watch);
    rows->chunk = rows->duck->fetch_chunk(rows->result);
    gsp_store__watchdog_disarm(watch);
    if (rows->chunk)
        return rows->duck->data_chunk_get_size(rows->chunk) > 0 ? 1 : 0;
    const char *text = rows->duck->result_error(&rows->result);
    if (!text)
        return 0;
    const struct gsp_engine_error error = {.text = text,
                                           .type = rows->duck->result_error_type(&rows->result)};
    return gsp_store__query_error_convert(rows->store, &error, NULL, err);
}

static int next(struct gsp_rows *base, struct gsp_batch_view *out, struct gsp_err *err)
{
    struct result_rows *rows = (struct result_rows *)base;
    *out = (struct gsp_batch_view){0};
    const int rc = rows->ended ? 0 : fetch(rows, err);
    if (rc <= 0) {
        rows->ended = true;
        return rc;
    }
    const uint64_t limit = rows->store->row_limit;
    size_t count = rows->duck->data_chunk_get_size(rows->chunk);
    if (count > limit - rows->returned) {
        count = (size_t)(limit - rows->returned);
        base->truncated = true;
        rows->ended = true;
    }
    if (count == 0)
        return 0;
    rows->returned += count;
    for (size_t c = 0; c < base->column_count; c++) {
        if (!make_values(&rows->columns[c], rows->duck->data_chunk_get_vector(rows->chunk, c),
                         count, &rows->views[c]))
            return gsp_err_nomem(err);
        if (rows->columns[c].type.id == DUCKDB_TYPE_SQLNULL)
            rows->views[c].valid = none_valid();
    }
    *out = (struct gsp_batch_view){count, rows->views};
    return 1;
}

static void free_rows(struct gsp_rows *base)
{
    struct result_rows *rows = (struct result_rows *)base;
    if (rows->chunk)
        rows->duck->destroy_data_chunk(&rows->chunk);
    rows->duck->destroy_result(&rows->result);
    for (size_t c = 0; rows->columns && c < base->column_count; c++) {
        gsp_store__vtype_free(&rows->columns[c].type);
        free(rows->columns[c].name);
        free(rows->columns[c].values);
        gsp_buf_free(&rows->columns[c].text);
    }
    rows->store->open = NULL;
    gsp_store__query_end(rows->store);
    free(rows->columns);
    free(rows->about);
    free(rows->views);
    free(rows);
}

static const struct gsp_rows_ops ops = {.next = next, .free = free_rows};

static int describe(struct result_rows *rows, size_t c, struct gsp_err *err)
{
    const struct gsp_duckdb *duck = rows->duck;
    struct column *column = &rows->columns[c];
    duckdb_logical_type type = duck->column_logical_type(&rows->result, c);
    const int rc = gsp_store__vtype_read(duck, type, 0, &column->type, err);
    duck->destroy_logical_type(&type);
    if (rc != GSP_OK)
        return rc;
    const char *name = duck->column_name(&rows->result, c);
    column->kind = kind_of(&column->type);
    column->name = strdup(name ? name : "");
    if (!is_direct(column))
        column->values = calloc(duck->vector_size(), width_of(column->kind));
    if (!column->name || (!is_direct(column) && !column->values))
        return gsp_err_nomem(err);
    rows->about[c] = (struct gsp_rows_column){.name = column->name,
                                              .sql_type = gsp_store__vtype_name(&column->type),
                                              .kind = column->kind,
                                              .dict = column->type.dict,
                                              .dict_count = column->type.dict_count};
    return GSP_OK;
}

static int describe_all(struct result_rows *rows, struct gsp_err *err)
{
    const size_t count = rows->duck->column_count(&rows->result);
    rows->columns = calloc(count + 1, sizeof(*rows->columns));
    rows->about = calloc(count + 1, sizeof(*rows->about));
    rows->views = calloc(count + 1, sizeof(*rows->views));
    if (!rows->columns || !rows->about || !rows->views)
        return gsp_err_nomem(err);
    rows->base.column_count = count;
    rows->base.columns = rows->about;
    for (size_t c = 0; c < count; c++) {
        const int rc = describe(rows, c, err);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

int gsp_store__result_rows(struct gsp_store *store, duckdb_result *result, struct gsp_rows **out,
                           struct gsp_err *err)
{
    *out = NULL;
    struct result_rows *rows = calloc(1, sizeof(*rows));
    if (!rows) {
        store->duck->destroy_result(result);
        gsp_store__query_end(store);
        return gsp_err_nomem(err);
    }
    rows->base.ops = &ops;
    rows->store = store;
    rows->duck = store->duck;
    rows->result = *result;
    const int rc = describe_all(rows, err);
    if (rc != GSP_OK) {
        free_rows(&rows->base);
        return rc;
    }
    store->open = &rows->base;
    *out = &rows->base;
    return GSP_OK;
}
