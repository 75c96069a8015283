/* SPDX-License-Identifier: Apache-2.0 */
#include "export/rows_json.h"

#include "base/json.h"
#include "model/cells.h"

static void put_cell(struct gsp_json *json, const struct gsp_rows_column *column,
                     const struct gsp_values *values, size_t row)
{
    if (gsp_model_values_is_null(values, row)) {
        gsp_json_null(json);
        return;
    }
    switch (column->kind) {
    case GSP_CELL_I64:
        gsp_json_i64(json, ((const int64_t *)values->data)[row]);
        break;
    case GSP_CELL_I128:
        gsp_json_raw(json, (struct gsp_sv){"", 0}); /* writes the comma */
        gsp_model_cell_put_i128(((const struct gsp_i128 *)values->data)[row], json->out);
        break;
    case GSP_CELL_F64:
        gsp_json_f64(json, ((const double *)values->data)[row]);
        break;
    case GSP_CELL_BOOL:
        gsp_json_bool(json, ((const uint8_t *)values->data)[row] != 0);
        break;
    case GSP_CELL_JSON:
        gsp_json_raw(json, gsp_model_cell_text(column, values, row));
        break;
    case GSP_CELL_TEXT:
    case GSP_CELL_DICT:
        gsp_json_sv(json, gsp_model_cell_text(column, values, row));
        break;
    }
}

/* A writer of rows: the names of their columns, and whether a row was written. */
struct writer {
    struct gsp_rows *rows;
    struct gsp_rows_names names;
    bool has_row;
};

static void put_row(struct writer *writer, const struct gsp_batch_view *batch, size_t row,
                    struct gsp_buf *out)
{
    const struct gsp_rows *rows = writer->rows;
    struct gsp_json json;
    gsp_buf_puts(out, writer->has_row ? ",\n" : "\n");
    writer->has_row = true;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    for (size_t i = 0; i < rows->column_count; i++) {
        gsp_json_keysv(&json, writer->names.at[i]);
        put_cell(&json, &rows->columns[i], &batch->values[i], row);
    }
    gsp_json_obj_end(&json);
}

static void put_end(const struct writer *writer, struct gsp_buf *out)
{
    gsp_buf_puts(out, writer->has_row ? "\n]\n" : "]\n");
}

int gsp_export_rows_write_json(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err)
{
    struct writer writer = {.rows = rows};
    struct gsp_batch_view batch;
    int rc = gsp_model_rows_names_new(rows, &writer.names, err);
    if (rc < 0)
        return rc;
    gsp_buf_putc(&out->buf, '[');
    while (!out->failed && (rc = gsp_rows_next(rows, &batch, err)) == 1) {
        for (size_t row = 0; row < batch.row_count; row++) {
            put_row(&writer, &batch, row, &out->buf);
            gsp_out_spill(out);
        }
    }
    if (rc == 0 && !out->failed)
        put_end(&writer, &out->buf);
    gsp_model_rows_names_free(&writer.names);
    return rc < 0 ? rc : GSP_OK;
}

int gsp_export_rows_json_append(struct gsp_rows *rows, struct gsp_buf *out, struct gsp_err *err)
{
    struct writer writer = {.rows = rows};
    struct gsp_batch_view batch;
    int rc = gsp_model_rows_names_new(rows, &writer.names, err);
    if (rc < 0)
        return rc;
    gsp_buf_putc(out, '[');
    while ((rc = gsp_rows_next(rows, &batch, err)) == 1)
        for (size_t row = 0; row < batch.row_count; row++)
            put_row(&writer, &batch, row, out);
    if (rc == 0)
        put_end(&writer, out);
    gsp_model_rows_names_free(&writer.names);
    if (rc == 0 && out->failed)
        rc = gsp_err_nomem(err);
    return rc;
}
