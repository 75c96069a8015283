/* SPDX-License-Identifier: Apache-2.0 */
#include "store/query_each.h"

#include <math.h>

#include "model/cells.h"
#include "wire/table.h"

int gsp_store_query_each(struct gsp_store *store, const char *sql, gsp_store_row_fn visit,
                         void *ctx, struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    int rc = gsp_store_query(store, gsp_sv_of(sql), &rows, NULL, err);
    while (rc == GSP_OK && (rc = gsp_rows_next(rows, &batch, err)) > 0) {
        rc = GSP_OK;
        for (size_t i = 0; rc == GSP_OK && i < batch.row_count; i++) {
            const struct gsp_store_row row = {.rows = rows, .batch = &batch, .at = i};
            rc = visit(ctx, &row, err);
        }
    }
    gsp_rows_free(rows);
    return rc;
}

static bool is_null(const struct gsp_store_row *row, size_t column)
{
    return column >= row->rows->column_count ||
           gsp_model_values_is_null(&row->batch->values[column], row->at);
}

int64_t gsp_store_row_i64(const struct gsp_store_row *row, size_t column)
{
    if (is_null(row, column))
        return GSP_NULL_I64;
    const void *data = row->batch->values[column].data;
    if (row->rows->columns[column].kind == GSP_CELL_I64)
        return ((const int64_t *)data)[row->at];
    if (row->rows->columns[column].kind == GSP_CELL_BOOL)
        return ((const uint8_t *)data)[row->at];
    return GSP_NULL_I64;
}

double gsp_store_row_f64(const struct gsp_store_row *row, size_t column)
{
    if (is_null(row, column))
        return (double)NAN;
    if (row->rows->columns[column].kind == GSP_CELL_F64)
        return ((const double *)row->batch->values[column].data)[row->at];
    const int64_t whole = gsp_store_row_i64(row, column);
    return whole == GSP_NULL_I64 ? (double)NAN : (double)whole;
}

struct gsp_sv gsp_store_row_text(const struct gsp_store_row *row, size_t column)
{
    if (is_null(row, column))
        return (struct gsp_sv){"", 0};
    const struct gsp_rows_column *about = &row->rows->columns[column];
    const bool is_text = about->kind == GSP_CELL_TEXT || about->kind == GSP_CELL_DICT ||
                         about->kind == GSP_CELL_JSON;
    return is_text ? gsp_model_cell_text(about, &row->batch->values[column], row->at)
                   : (struct gsp_sv){"", 0};
}
