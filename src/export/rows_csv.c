/* SPDX-License-Identifier: Apache-2.0 */
#include "export/rows_csv.h"

#include <string.h>

#include "model/cells.h"

/* Quotes protect delimiters, and spaces that some readers strip. */
static bool needs_quotes(struct gsp_sv text)
{
    if (text.len == 0 || text.p[0] == ' ' || text.p[text.len - 1] == ' ')
        return true;
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] == '"' || text.p[i] == ',' || text.p[i] == '\n' || text.p[i] == '\r')
            return true;
    return false;
}

/* Whether a spreadsheet would take the text for a formula. Some ignore a byte order mark, and treat
 * the full-width forms of the characters like the others. */
static bool is_formula(struct gsp_sv text)
{
    static const char *const WIDE[] = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};
    static const char MARK[] = "\ufeff";
    while (gsp_sv_starts(text, MARK))
        text = (struct gsp_sv){text.p + sizeof(MARK) - 1, text.len - (sizeof(MARK) - 1)};
    bool found = text.len > 0 && text.p[0] && strchr("=+-@\t\r\n", text.p[0]);
    for (size_t i = 0; i < GSP_COUNT(WIDE); i++)
        found = found || gsp_sv_starts(text, WIDE[i]);
    return found;
}

void gsp_export_csv_text(struct gsp_sv text, bool is_raw, struct gsp_buf *out)
{
    const bool is_guarded = !is_raw && is_formula(text);
    if (!is_guarded && !needs_quotes(text)) {
        gsp_model_cell_put_utf8(text, out);
        return;
    }
    gsp_buf_puts(out, is_guarded ? "\"'" : "\"");
    struct gsp_sv part;
    const char *sep = "";
    while (gsp_sv_split(&text, '"', &part)) {
        gsp_buf_puts(out, sep);
        gsp_model_cell_put_utf8(part, out);
        sep = "\"\"";
    }
    gsp_buf_putc(out, '"');
}

static void put_cell(const struct gsp_rows_column *column, const struct gsp_values *values,
                     size_t row, bool is_raw, struct gsp_buf *out)
{
    if (gsp_model_values_is_null(values, row))
        return;
    bool is_text = column->kind == GSP_CELL_TEXT || column->kind == GSP_CELL_JSON ||
                   column->kind == GSP_CELL_DICT;
    if (is_text)
        gsp_export_csv_text(gsp_model_cell_text(column, values, row), is_raw, out);
    else
        gsp_model_cell_put(column, values, row, out);
}

static void put_row(const struct gsp_rows *rows, const struct gsp_batch_view *batch, size_t row,
                    bool is_raw, struct gsp_buf *out)
{
    for (size_t i = 0; i < rows->column_count; i++) {
        if (i)
            gsp_buf_putc(out, ',');
        put_cell(&rows->columns[i], &batch->values[i], row, is_raw, out);
    }
    gsp_buf_putc(out, '\n');
}

static int write_rows(struct gsp_rows *rows, bool is_raw, struct gsp_out *out, struct gsp_err *err)
{
    for (size_t i = 0; i < rows->column_count; i++) {
        if (i)
            gsp_buf_putc(&out->buf, ',');
        gsp_export_csv_text(gsp_sv_of(rows->columns[i].name), is_raw, &out->buf);
    }
    gsp_buf_putc(&out->buf, '\n');
    struct gsp_batch_view batch;
    int rc = 0;
    while (!out->failed && (rc = gsp_rows_next(rows, &batch, err)) == 1) {
        for (size_t row = 0; row < batch.row_count; row++) {
            put_row(rows, &batch, row, is_raw, &out->buf);
            gsp_out_spill(out);
        }
    }
    return rc < 0 ? rc : GSP_OK;
}

int gsp_export_rows_write_csv(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err)
{
    return write_rows(rows, false, out, err);
}

int gsp_export_rows_write_csv_raw(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err)
{
    return write_rows(rows, true, out, err);
}
