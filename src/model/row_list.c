/* SPDX-License-Identifier: Apache-2.0 */
#include "model/row_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct column_data {
    struct gsp_buf data;  /* of int64_t, uint8_t or struct gsp_sv (see finish_text()) */
    struct gsp_buf valid; /* bit mask */
};

struct gsp_row_list {
    struct gsp_rows rows; /* must be first: callers have a pointer to it */
    struct gsp_rows_column columns[GSP_ROW_LIST_COLUMNS_MAX];
    struct column_data data[GSP_ROW_LIST_COLUMNS_MAX];
    struct gsp_values values[GSP_ROW_LIST_COLUMNS_MAX];
    struct gsp_buf text;
    size_t next_column;
    size_t row_count;
    bool is_read;
};

static bool has_failed(const struct gsp_row_list *list)
{
    bool failed = list->text.failed;
    for (size_t i = 0; i < list->rows.column_count; i++)
        failed = failed || list->data[i].data.failed || list->data[i].valid.failed;
    return failed;
}

/* Converts offsets into text to addresses: text no longer moves. */
static void finish_text(struct gsp_row_list *list)
{
    for (size_t i = 0; i < list->rows.column_count; i++) {
        struct column_data *column = &list->data[i];
        struct gsp_sv *texts = (struct gsp_sv *)(void *)column->data.p;
        for (size_t row = 0; list->columns[i].kind == GSP_CELL_TEXT && row < list->row_count; row++)
            texts[row].p = list->text.p + (uintptr_t)texts[row].p;
        list->values[i] =
            (struct gsp_values){column->data.p, (const uint64_t *)(const void *)column->valid.p};
    }
}

static int next_batch(struct gsp_rows *rows, struct gsp_batch_view *out, struct gsp_err *err)
{
    struct gsp_row_list *list = (struct gsp_row_list *)(void *)rows;
    if (has_failed(list))
        return gsp_err_nomem(err);
    if (list->is_read || list->row_count == 0)
        return 0;
    list->is_read = true;
    finish_text(list);
    *out = (struct gsp_batch_view){list->row_count, list->values};
    return 1;
}

static void free_rows(struct gsp_rows *rows)
{
    struct gsp_row_list *list = (struct gsp_row_list *)(void *)rows;
    for (size_t i = 0; i < list->rows.column_count; i++) {
        gsp_buf_free(&list->data[i].data);
        gsp_buf_free(&list->data[i].valid);
    }
    gsp_buf_free(&list->text);
    free(list);
}

int gsp_model_row_list_new(const struct gsp_rows_column *columns, size_t count,
                           struct gsp_row_list **out, struct gsp_err *err)
{
    static const struct gsp_rows_ops OPS = {next_batch, free_rows};
    *out = NULL;
    if (count > GSP_ROW_LIST_COLUMNS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "too many columns");
    struct gsp_row_list *list = calloc(1, sizeof(*list));
    if (!list)
        return gsp_err_nomem(err);
    memcpy(list->columns, columns, count * sizeof(*columns));
    list->rows = (struct gsp_rows){.ops = &OPS, .columns = list->columns, .column_count = count};
    *out = list;
    return GSP_OK;
}

struct gsp_rows *gsp_model_row_list_rows(struct gsp_row_list *list)
{
    return &list->rows;
}

static void add(struct gsp_row_list *list, const void *value, size_t width, bool is_null)
{
    struct column_data *column = &list->data[list->next_column];
    size_t row = list->row_count;
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
    list->next_column = (list->next_column + 1) % list->rows.column_count;
    list->row_count += list->next_column == 0;
}

void gsp_model_row_list_add_i64(struct gsp_row_list *list, int64_t v)
{
    add(list, &v, sizeof(v), v == INT64_MIN);
}

void gsp_model_row_list_add_bool(struct gsp_row_list *list, bool v)
{
    uint8_t byte = v;
    add(list, &byte, sizeof(byte), false);
}

void gsp_model_row_list_add_text(struct gsp_row_list *list, struct gsp_sv v)
{
    /* An offset until finish_text(). */
    struct gsp_sv text = {(const char *)(uintptr_t)list->text.len, v.len}; /* NOLINT */
    gsp_buf_putsv(&list->text, v);
    add(list, &text, sizeof(text), v.p == NULL);
}
