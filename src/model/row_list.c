/* SPDX-License-Identifier: Apache-2.0 */
#include "model/row_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct made_column {
    struct gsp_buf data;  /* int64_t, uint8_t or struct gsp_sv: the text's place, then its bytes */
    struct gsp_buf valid; /* words of bits */
};

struct gsp_made_rows {
    struct gsp_rows rows; /* first: what others have is a pointer to it */
    struct gsp_rows_column columns[GSP_MADE_COLUMNS_MAX];
    struct made_column made[GSP_MADE_COLUMNS_MAX];
    struct gsp_values values[GSP_MADE_COLUMNS_MAX];
    struct gsp_buf text;
    size_t next_column;
    size_t row_count;
    bool is_read;
};

static bool has_failed(const struct gsp_made_rows *made)
{
    bool failed = made->text.failed;
    for (size_t i = 0; i < made->rows.column_count; i++)
        failed = failed || made->made[i].data.failed || made->made[i].valid.failed;
    return failed;
}

/* While rows were added the text moved: places become addresses now. */
static void settle(struct gsp_made_rows *made)
{
    for (size_t i = 0; i < made->rows.column_count; i++) {
        struct made_column *column = &made->made[i];
        struct gsp_sv *texts = (struct gsp_sv *)(void *)column->data.p;
        for (size_t row = 0; made->columns[i].kind == GSP_CELL_TEXT && row < made->row_count; row++)
            texts[row].p = made->text.p + (uintptr_t)texts[row].p;
        made->values[i] =
            (struct gsp_values){column->data.p, (const uint64_t *)(const void *)column->valid.p};
    }
}

static int next_batch(struct gsp_rows *rows, struct gsp_batch_view *out, struct gsp_err *err)
{
    struct gsp_made_rows *made = (struct gsp_made_rows *)(void *)rows;
    if (has_failed(made))
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a table");
    if (made->is_read || made->row_count == 0)
        return 0;
    made->is_read = true;
    settle(made);
    *out = (struct gsp_batch_view){made->row_count, made->values};
    return 1;
}

static void free_rows(struct gsp_rows *rows)
{
    struct gsp_made_rows *made = (struct gsp_made_rows *)(void *)rows;
    for (size_t i = 0; i < made->rows.column_count; i++) {
        gsp_buf_free(&made->made[i].data);
        gsp_buf_free(&made->made[i].valid);
    }
    gsp_buf_free(&made->text);
    free(made);
}

int gsp_made_rows_new(const struct gsp_rows_column *columns, size_t count,
                      struct gsp_made_rows **out, struct gsp_err *err)
{
    static const struct gsp_rows_ops OPS = {next_batch, free_rows};
    *out = NULL;
    if (count > GSP_MADE_COLUMNS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "too many columns");
    struct gsp_made_rows *made = calloc(1, sizeof(*made));
    if (!made)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a table");
    memcpy(made->columns, columns, count * sizeof(*columns));
    made->rows = (struct gsp_rows){.ops = &OPS, .columns = made->columns, .column_count = count};
    *out = made;
    return GSP_OK;
}

struct gsp_rows *gsp_made_rows_get(struct gsp_made_rows *made)
{
    return &made->rows;
}

static void add(struct gsp_made_rows *made, const void *value, size_t width, bool is_null)
{
    struct made_column *column = &made->made[made->next_column];
    size_t row = made->row_count;
    if (row % 64 == 0) {
        const uint64_t none = 0;
        gsp_buf_put(&column->valid, &none, sizeof(none));
    }
    if (!is_null && !column->valid.failed && column->valid.p) {
        uint64_t word = 0;
        char *at = column->valid.p + row / 64 * sizeof(word);
        memcpy(&word, at, sizeof(word));
        word |= UINT64_C(1) << (row % 64);
        memcpy(at, &word, sizeof(word));
    }
    gsp_buf_put(&column->data, value, width);
    made->next_column = (made->next_column + 1) % made->rows.column_count;
    made->row_count += made->next_column == 0;
}

void gsp_made_i64(struct gsp_made_rows *made, int64_t v)
{
    add(made, &v, sizeof(v), v == INT64_MIN);
}

void gsp_made_bool(struct gsp_made_rows *made, bool v)
{
    uint8_t byte = v;
    add(made, &byte, sizeof(byte), false);
}

void gsp_made_text(struct gsp_made_rows *made, struct gsp_sv v)
{
    /* Until settle() it is a place and no address. */
    struct gsp_sv text = {(const char *)(uintptr_t)made->text.len, v.len}; /* NOLINT */
    gsp_buf_putsv(&made->text, v);
    add(made, &text, sizeof(text), v.p == NULL);
}
