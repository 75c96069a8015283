/* SPDX-License-Identifier: Apache-2.0 */
#include "client/json_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_scan.h"

enum cell_kind { CELL_NULL, CELL_WHOLE, CELL_REAL, CELL_BOOL, CELL_TEXT, CELL_KINDS };

/* A value; its text is in the arena. */
struct cell {
    size_t at;
    uint32_t len;
    enum cell_kind kind;
};

struct column {
    char *name;
    struct gsp_buf cells; /* one struct cell per row */
    size_t count;
    size_t seen[CELL_KINDS];
    struct gsp_buf data;
    struct gsp_buf valid;
};

struct json_rows {
    struct gsp_rows rows; /* first, because it is cast back */
    struct column *columns;
    struct gsp_rows_column *heads;
    struct gsp_values *values;
    struct gsp_buf arena;
    struct gsp_buf *warnings; /* may be NULL */
    size_t column_count;
    size_t column_cap;
    size_t row_count;
    bool is_read;
};

static int next_batch(struct gsp_rows *rows, struct gsp_batch_view *out, struct gsp_err *err)
{
    struct json_rows *table = (struct json_rows *)(void *)rows;
    (void)err;
    if (table->is_read || table->row_count == 0)
        return 0;
    table->is_read = true;
    *out = (struct gsp_batch_view){table->row_count, table->values};
    return 1;
}

static void free_rows(struct gsp_rows *rows)
{
    struct json_rows *table = (struct json_rows *)(void *)rows;
    for (size_t i = 0; i < table->column_count; i++) {
        free(table->columns[i].name);
        gsp_buf_free(&table->columns[i].cells);
        gsp_buf_free(&table->columns[i].data);
        gsp_buf_free(&table->columns[i].valid);
    }
    free(table->columns);
    free(table->heads);
    free(table->values);
    gsp_buf_free(&table->arena);
    free(table);
}

static int add_column(struct json_rows *table, struct gsp_sv name, struct gsp_err *err)
{
    if (table->column_count == GSP_JSON_ROWS_COLUMNS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the answer has more than %u columns",
                           GSP_JSON_ROWS_COLUMNS_MAX);
    if (!gsp_array_fit(&table->columns, &table->column_cap, table->column_count + 1))
        return gsp_err_nomem(err);
    table->columns[table->column_count] = (struct column){.name = gsp_sv_dup(name)};
    return table->columns[table->column_count++].name ? GSP_OK : gsp_err_nomem(err);
}

/* Finds or adds a column. *guess is its index if all objects have the same members. */
static int find_column(struct json_rows *table, struct gsp_sv name, size_t *guess,
                       struct column **out, struct gsp_err *err)
{
    for (size_t k = 0; k < table->column_count; k++) {
        size_t i = (*guess + k) % table->column_count;
        if (gsp_sv_eq(gsp_sv_of(table->columns[i].name), name)) {
            *guess = i + 1;
            *out = &table->columns[i];
            return GSP_OK;
        }
    }
    int rc = add_column(table, name, err);
    *out = rc == GSP_OK ? &table->columns[table->column_count - 1] : NULL;
    *guess = table->column_count;
    return rc;
}

static bool is_whole(struct gsp_sv digits)
{
    char copy[32];
    char *end = NULL;
    if (digits.len >= sizeof(copy) || memchr(digits.p, '.', digits.len) ||
        memchr(digits.p, 'e', digits.len) || memchr(digits.p, 'E', digits.len))
        return false;
    memcpy(copy, digits.p, digits.len);
    copy[digits.len] = '\0';
    errno = 0;
    long long v = strtoll(copy, &end, 10);
    return errno == 0 && v != INT64_MIN;
}

/* Reads the value that starts with the last token. */
static int read_cell(struct json_rows *table, struct gsp_json_scan *scan, struct cell *out,
                     struct gsp_err *err)
{
    size_t at = table->arena.len;
    struct gsp_json json;
    int rc = GSP_OK;
    *out = (struct cell){.at = at, .kind = CELL_TEXT};
    switch (scan->kind) {
    case GSP_JSON_SCAN_NULL:
        out->kind = CELL_NULL;
        break;
    case GSP_JSON_SCAN_NUMBER:
        out->kind = is_whole(scan->text) ? CELL_WHOLE : CELL_REAL;
        gsp_buf_putsv(&table->arena, scan->text);
        break;
    case GSP_JSON_SCAN_BOOL:
        out->kind = CELL_BOOL;
        gsp_buf_puts(&table->arena, scan->truth ? "true" : "false");
        break;
    case GSP_JSON_SCAN_STRING:
        gsp_buf_putsv(&table->arena, scan->text);
        break;
    case GSP_JSON_SCAN_END:
    case GSP_JSON_SCAN_OBJ_BEGIN:
    case GSP_JSON_SCAN_OBJ_END:
    case GSP_JSON_SCAN_ARR_BEGIN:
    case GSP_JSON_SCAN_ARR_END:
    case GSP_JSON_SCAN_KEY:
        gsp_json_init(&json, &table->arena);
        rc = gsp_json_scan_copy(scan, &json, err);
        break;
    }
    out->len = (uint32_t)(table->arena.len - at);
    return table->arena.failed ? gsp_err_nomem(err) : rc;
}

/* Adds NULL for the rows that lack the member. */
static void fill_up(struct column *column, size_t rows)
{
    const struct cell none = {.kind = CELL_NULL};
    for (; column->count < rows; column->count++)
        gsp_buf_put(&column->cells, &none, sizeof(none));
}

static int read_row(struct json_rows *table, struct gsp_json_scan *scan, struct gsp_err *err)
{
    size_t guess = 0;
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        struct column *column = NULL;
        struct cell cell = {0};
        rc = find_column(table, scan->text, &guess, &column, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK)
            rc = read_cell(table, scan, &cell, err);
        if (rc < 0 || !column)
            return rc;
        fill_up(column, table->row_count);
        if (column->count == table->row_count) { /* the first of two members with the same name */
            gsp_buf_put(&column->cells, &cell, sizeof(cell));
            column->count++;
            column->seen[cell.kind]++;
        }
        rc = gsp_json_scan_next(scan, err);
    }
    table->row_count++;
    return rc;
}

/* Reads an array that starts with the last token. Calls each for the first token of an element. */
static int read_array(struct json_rows *table, struct gsp_json_scan *scan,
                      int (*each)(struct json_rows *, struct gsp_json_scan *, struct gsp_err *),
                      struct gsp_err *err)
{
    int rc = scan->kind == GSP_JSON_SCAN_ARR_BEGIN
                 ? gsp_json_scan_next(scan, err)
                 : gsp_err_set(err, GSP_E_FORMAT, 0, "the answer is not an array of rows");
    while (rc == GSP_OK && scan->kind != GSP_JSON_SCAN_ARR_END) {
        rc = each(table, scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

static int read_row_object(struct json_rows *table, struct gsp_json_scan *scan, struct gsp_err *err)
{
    return scan->kind == GSP_JSON_SCAN_OBJ_BEGIN
               ? read_row(table, scan, err)
               : gsp_err_set(err, GSP_E_FORMAT, 0, "a row of the answer is not an object");
}

/* Reads {"name": ...} and ignores other members. */
static int read_head(struct json_rows *table, struct gsp_json_scan *scan, struct gsp_err *err)
{
    if (scan->kind != GSP_JSON_SCAN_OBJ_BEGIN)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "a column of the answer is not an object");
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        const bool is_name = gsp_sv_eq(scan->text, gsp_sv_of("name"));
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK && is_name && scan->kind == GSP_JSON_SCAN_STRING)
            rc = add_column(table, scan->text, err);
        else if (rc == GSP_OK)
            rc = gsp_json_scan_skip(scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

static int read_warning(struct json_rows *table, struct gsp_json_scan *scan, struct gsp_err *err)
{
    if (scan->kind != GSP_JSON_SCAN_STRING)
        return gsp_json_scan_skip(scan, err);
    if (table->warnings) {
        gsp_buf_putsv(table->warnings, scan->text);
        gsp_buf_putc(table->warnings, '\n');
    }
    return GSP_OK;
}

static int read_object(struct json_rows *table, struct gsp_json_scan *scan, struct gsp_err *err)
{
    bool has_rows = false;
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        const bool is_columns = gsp_sv_eq(scan->text, gsp_sv_of("columns")) && !has_rows;
        const bool is_rows = gsp_sv_eq(scan->text, gsp_sv_of("rows")) && !has_rows;
        const bool is_warnings = gsp_sv_eq(scan->text, gsp_sv_of("warnings"));
        has_rows = has_rows || is_rows;
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK && (is_columns || is_rows || is_warnings))
            rc = read_array(table, scan,
                            is_columns ? read_head
                            : is_rows  ? read_row_object
                                       : read_warning,
                            err);
        else if (rc == GSP_OK)
            rc = gsp_json_scan_skip(scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    if (rc == GSP_OK && !has_rows)
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "the answer has no rows");
    return rc;
}

static int read_all(struct json_rows *table, struct gsp_json_scan *scan, struct gsp_err *err)
{
    int rc = gsp_json_scan_next(scan, err);
    if (rc == GSP_OK)
        rc = scan->kind == GSP_JSON_SCAN_OBJ_BEGIN ? read_object(table, scan, err)
                                                   : read_array(table, scan, read_row_object, err);
    return rc == GSP_OK ? gsp_json_scan_next(scan, err) : rc;
}

static enum gsp_cell_kind kind_of(const struct column *column)
{
    size_t numbers = column->seen[CELL_WHOLE] + column->seen[CELL_REAL];
    if (column->seen[CELL_TEXT] || (numbers && column->seen[CELL_BOOL]))
        return GSP_CELL_TEXT;
    if (column->seen[CELL_BOOL])
        return GSP_CELL_BOOL;
    if (column->seen[CELL_REAL])
        return GSP_CELL_F64;
    return numbers ? GSP_CELL_I64 : GSP_CELL_TEXT;
}

static void put_cell(const struct json_rows *table, struct column *column, enum gsp_cell_kind kind,
                     const struct cell *cell)
{
    struct gsp_sv text = {table->arena.p + cell->at, cell->len};
    char digits[512];
    size_t len = cell->len < sizeof(digits) ? cell->len : 0;
    if (len > 0 && text.p)
        memcpy(digits, text.p, len);
    digits[len] = '\0';
    if (kind == GSP_CELL_I64) {
        int64_t v = strtoll(digits, NULL, 10);
        gsp_buf_put(&column->data, &v, sizeof(v));
    } else if (kind == GSP_CELL_F64) {
        double v = strtod(digits, NULL);
        gsp_buf_put(&column->data, &v, sizeof(v));
    } else if (kind == GSP_CELL_BOOL) {
        gsp_buf_putc(&column->data, (char)(digits[0] == 't'));
    } else {
        gsp_buf_put(&column->data, &text, sizeof(text));
    }
}

static void convert_column(struct json_rows *table, size_t i)
{
    static const char *const TYPES[] = {
        [GSP_CELL_I64] = "BIGINT", [GSP_CELL_F64] = "DOUBLE", [GSP_CELL_BOOL] = "BOOLEAN"};
    struct column *column = &table->columns[i];
    enum gsp_cell_kind kind = kind_of(column);
    uint64_t word = 0;
    fill_up(column, table->row_count);
    for (size_t row = 0; row < table->row_count && !column->cells.failed; row++) {
        struct cell cell;
        memcpy(&cell, column->cells.p + row * sizeof(cell), sizeof(cell));
        put_cell(table, column, kind, &cell);
        if (cell.kind != CELL_NULL)
            word |= UINT64_C(1) << (row % 64);
        if (row % 64 == 63 || row + 1 == table->row_count) {
            gsp_buf_put(&column->valid, &word, sizeof(word));
            word = 0;
        }
    }
    table->heads[i] = (struct gsp_rows_column){
        .name = column->name,
        .sql_type = kind < GSP_COUNT(TYPES) && TYPES[kind] ? TYPES[kind] : "VARCHAR",
        .kind = kind};
    table->values[i] =
        (struct gsp_values){column->data.p, (const uint64_t *)(const void *)column->valid.p};
}

static int convert(struct json_rows *table, struct gsp_err *err)
{
    size_t count = table->column_count ? table->column_count : 1;
    table->heads = calloc(count, sizeof(*table->heads));
    table->values = calloc(count, sizeof(*table->values));
    if (!table->heads || !table->values)
        return gsp_err_nomem(err);
    for (size_t i = 0; i < table->column_count; i++) {
        convert_column(table, i);
        if (table->columns[i].cells.failed || table->columns[i].data.failed ||
            table->columns[i].valid.failed)
            return gsp_err_nomem(err);
    }
    table->rows.columns = table->heads;
    table->rows.column_count = table->column_count;
    return GSP_OK;
}

int gsp_client_rows_from_json(struct gsp_sv text, struct gsp_buf *warnings, struct gsp_rows **out,
                              struct gsp_err *err)
{
    static const struct gsp_rows_ops OPS = {next_batch, free_rows};
    struct gsp_json_scan scan = {0};
    *out = NULL;
    struct json_rows *table = calloc(1, sizeof(*table));
    if (!table)
        return gsp_err_nomem(err);
    table->rows.ops = &OPS;
    table->warnings = warnings;
    int rc = gsp_json_scan_open(&scan, gsp_json_scan_read_text, &text, err);
    if (rc == GSP_OK)
        rc = read_all(table, &scan, err);
    gsp_json_scan_close(&scan);
    if (rc == GSP_OK)
        rc = convert(table, err);
    if (rc < 0) {
        free_rows(&table->rows);
        return rc;
    }
    *out = &table->rows;
    return GSP_OK;
}
