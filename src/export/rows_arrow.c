/* SPDX-License-Identifier: Apache-2.0 */
#include "export/rows_arrow.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "export/flatbuf.h"
#include "model/cells.h"

/* Constants of the format (Schema.fbs, Message.fbs). */
#define METADATA_V5         4
#define HEADER_SCHEMA       1U
#define HEADER_DICTIONARY   2U
#define HEADER_RECORD_BATCH 3U
#define TYPE_INT            2U
#define TYPE_FLOATING_POINT 3U
#define TYPE_UTF8           5U
#define TYPE_BOOL           6U
#define TYPE_DECIMAL        7U
#define PRECISION_DOUBLE    2
#define DECIMAL_DIGITS      38
#define DECIMAL_BITS        128
#define CONTINUATION        UINT32_MAX

#define ALIGN               8U
/* Several batches of the SQL engine are combined into one record batch, because a reader's cost
 * per message is high. */
#define BATCH_ROWS          ((size_t)64 * 1024)
#define BATCH_TEXT_BYTES    ((size_t)32 << 20)
#define TEXT_BYTES_MAX      ((size_t)INT32_MAX)
#define BUFFERS_PER_COLUMN  ((size_t)3)

/* Builds a column of the current record batch. */
struct builder {
    struct gsp_buf valid;   /* bits */
    struct gsp_buf data;    /* values, bits of BOOL, or bytes of text */
    struct gsp_buf offsets; /* int32_t, of a text column: one more than rows */
    int64_t null_count;
};

/* The body of a message. */
struct body {
    int64_t *nodes;   /* of each field: length and number of NULLs */
    int64_t *buffers; /* offset and length */
    const struct gsp_buf **parts;
    size_t node_count;
    size_t buffer_count;
    size_t bytes;
};

struct arrow {
    struct gsp_rows *rows;
    struct gsp_out *out;
    struct builder *builders; /* one per column */
    struct body body;
    size_t row_count; /* of the current record batch */
    size_t text_bytes;
};

static size_t padded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static bool is_text(enum gsp_cell_kind kind)
{
    return kind == GSP_CELL_TEXT || kind == GSP_CELL_JSON;
}

static void put_padding(struct gsp_buf *out, size_t len)
{
    static const char ZEROS[ALIGN];
    gsp_buf_put(out, ZEROS, padded(len) - len);
}

/* Writes a message: prefix, metadata and body. */
static int put_message(struct arrow *arrow, struct gsp_fb *fb, gsp_fb_ref header,
                       uint8_t header_type, struct gsp_err *err)
{
    const struct body *body = &arrow->body;
    struct gsp_buf *out = &arrow->out->buf;
    gsp_export__fb_begin(fb);
    gsp_export__fb_i64(fb, 3, (int64_t)body->bytes);
    gsp_export__fb_ref_to(fb, 2, header);
    gsp_export__fb_u8(fb, 1, header_type);
    gsp_export__fb_i16(fb, 0, METADATA_V5);
    gsp_fb_ref message = gsp_export__fb_end(fb);
    struct gsp_sv bytes = gsp_export__fb_finish(fb, message);
    if (!bytes.p)
        return gsp_err_nomem(err);
    uint32_t head[2] = {CONTINUATION, (uint32_t)bytes.len};
    gsp_buf_put(out, head, sizeof(head));
    gsp_buf_putsv(out, bytes);
    for (size_t i = 0; i < body->buffer_count; i++) {
        const struct gsp_buf *part = body->parts[i];
        if (part && body->buffers[2 * i + 1]) {
            gsp_buf_put(out, part->p, part->len);
            put_padding(out, part->len);
        }
        gsp_out_spill(arrow->out);
    }
    return GSP_OK;
}

static void clear_body(struct body *body)
{
    body->node_count = 0;
    body->buffer_count = 0;
    body->bytes = 0;
}

/* If part is NULL, the buffer is empty. */
static void add_buffer(struct body *body, const struct gsp_buf *part)
{
    size_t len = part ? part->len : 0;
    body->parts[body->buffer_count] = part;
    body->buffers[2 * body->buffer_count] = (int64_t)body->bytes;
    body->buffers[2 * body->buffer_count + 1] = (int64_t)len;
    body->buffer_count++;
    body->bytes += padded(len);
}

static void add_node(struct body *body, size_t length, int64_t null_count)
{
    body->nodes[2 * body->node_count] = (int64_t)length;
    body->nodes[2 * body->node_count + 1] = null_count;
    body->node_count++;
}

static gsp_fb_ref put_batch_table(struct gsp_fb *fb, const struct body *body, size_t row_count)
{
    gsp_fb_ref buffers = gsp_export__fb_words(fb, body->buffers, 2, body->buffer_count);
    gsp_fb_ref nodes = gsp_export__fb_words(fb, body->nodes, 2, body->node_count);
    gsp_export__fb_begin(fb);
    gsp_export__fb_i64(fb, 0, (int64_t)row_count);
    gsp_export__fb_ref_to(fb, 1, nodes);
    gsp_export__fb_ref_to(fb, 2, buffers);
    return gsp_export__fb_end(fb);
}

/* Writes the table of a type; *type is its number in the union. */
static gsp_fb_ref put_type(struct gsp_fb *fb, enum gsp_cell_kind kind, uint8_t *type)
{
    gsp_export__fb_begin(fb);
    switch (kind) {
    case GSP_CELL_I64:
        *type = TYPE_INT;
        gsp_export__fb_i32(fb, 0, 64);
        gsp_export__fb_u8(fb, 1, 1);
        break;
    case GSP_CELL_I128:
        *type = TYPE_DECIMAL;
        gsp_export__fb_i32(fb, 0, DECIMAL_DIGITS);
        gsp_export__fb_i32(fb, 2, DECIMAL_BITS);
        break;
    case GSP_CELL_F64:
        *type = TYPE_FLOATING_POINT;
        gsp_export__fb_i16(fb, 0, PRECISION_DOUBLE);
        break;
    case GSP_CELL_BOOL:
        *type = TYPE_BOOL;
        break;
    case GSP_CELL_TEXT:
    case GSP_CELL_JSON:
    case GSP_CELL_DICT:
        *type = TYPE_UTF8;
        break;
    }
    return gsp_export__fb_end(fb);
}

/* The encoding of a dictionary column: 32-bit indices. */
static gsp_fb_ref put_encoding(struct gsp_fb *fb, size_t id)
{
    gsp_export__fb_begin(fb);
    gsp_export__fb_i32(fb, 0, 32);
    gsp_export__fb_u8(fb, 1, 1);
    gsp_fb_ref index = gsp_export__fb_end(fb);
    gsp_export__fb_begin(fb);
    gsp_export__fb_i64(fb, 0, (int64_t)id);
    gsp_export__fb_ref_to(fb, 1, index);
    return gsp_export__fb_end(fb);
}

static gsp_fb_ref put_metadata(struct gsp_fb *fb, const char *sql_type)
{
    gsp_auto_buf text = {0};
    gsp_model_cell_put_utf8(gsp_sv_of(sql_type), &text);
    gsp_fb_ref value = gsp_export__fb_string(fb, gsp_buf_sv(&text));
    gsp_fb_ref key = gsp_export__fb_string(fb, gsp_sv_of("sql_type"));
    gsp_export__fb_begin(fb);
    gsp_export__fb_ref_to(fb, 0, key);
    gsp_export__fb_ref_to(fb, 1, value);
    gsp_fb_ref pair = gsp_export__fb_end(fb);
    return gsp_export__fb_refs(fb, &pair, 1);
}

static gsp_fb_ref put_field(struct gsp_fb *fb, const struct gsp_rows_column *column,
                            struct gsp_sv name, size_t id)
{
    uint8_t type = 0;
    gsp_fb_ref label = gsp_export__fb_string(fb, name);
    gsp_fb_ref type_table = put_type(fb, column->kind, &type);
    gsp_fb_ref encoding = column->kind == GSP_CELL_DICT ? put_encoding(fb, id) : 0;
    gsp_fb_ref children = gsp_export__fb_refs(fb, NULL, 0);
    gsp_fb_ref metadata = column->sql_type ? put_metadata(fb, column->sql_type) : 0;
    gsp_export__fb_begin(fb);
    gsp_export__fb_ref_to(fb, 0, label);
    gsp_export__fb_ref_to(fb, 3, type_table);
    gsp_export__fb_ref_to(fb, 4, encoding);
    gsp_export__fb_ref_to(fb, 5, children);
    gsp_export__fb_ref_to(fb, 6, metadata);
    gsp_export__fb_u8(fb, 1, 1);
    gsp_export__fb_u8(fb, 2, type);
    return gsp_export__fb_end(fb);
}

static int put_schema(struct arrow *arrow, struct gsp_err *err)
{
    const struct gsp_rows *rows = arrow->rows;
    struct gsp_rows_names names;
    int rc = gsp_model_rows_names_new(rows, &names, err);
    if (rc < 0)
        return rc;
    struct gsp_fb fb = {0};
    gsp_fb_ref *fields = calloc(rows->column_count + 1, sizeof(*fields));
    if (!fields) {
        gsp_model_rows_names_free(&names);
        return gsp_err_nomem(err);
    }
    for (size_t i = 0; i < rows->column_count; i++)
        fields[i] = put_field(&fb, &rows->columns[i], names.at[i], i);
    gsp_fb_ref list = gsp_export__fb_refs(&fb, fields, rows->column_count);
    gsp_export__fb_begin(&fb);
    gsp_export__fb_ref_to(&fb, 1, list);
    gsp_fb_ref schema = gsp_export__fb_end(&fb);
    clear_body(&arrow->body);
    rc = put_message(arrow, &fb, schema, HEADER_SCHEMA, err);
    gsp_export__fb_free(&fb);
    free(fields);
    gsp_model_rows_names_free(&names);
    return rc;
}

static void put_bit(struct gsp_buf *bits, size_t i, bool v)
{
    if (i % 8 == 0)
        gsp_buf_putc(bits, 0);
    if (v && bits->p && !bits->failed)
        bits->p[i / 8] = (char)((unsigned char)bits->p[i / 8] | 1U << (i % 8));
}

static void put_offset(struct builder *builder)
{
    int32_t offset = (int32_t)builder->data.len;
    gsp_buf_put(&builder->offsets, &offset, sizeof(offset));
}

/* Fails with LIMIT if the column's text exceeds the range of an offset. */
static int append_text(struct builder *builder, struct gsp_sv text, struct gsp_err *err)
{
    if (builder->offsets.len == 0)
        put_offset(builder);
    bool fits = text.len <= TEXT_BYTES_MAX - builder->data.len;
    if (fits)
        gsp_model_cell_put_utf8(text, &builder->data);
    if (!fits || builder->data.len > TEXT_BYTES_MAX) /* an invalid byte becomes three */
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a text column exceeds Arrow's limit of %zu bytes",
                           TEXT_BYTES_MAX);
    put_offset(builder);
    return GSP_OK;
}

/* Whether the value is in its dictionary. Readers do not check indices. */
static bool has_string(const struct gsp_rows_column *column, const struct gsp_values *values,
                       size_t row)
{
    return column->kind != GSP_CELL_DICT ||
           ((const uint32_t *)values->data)[row] < column->dict_count;
}

/* Appends one value; i is its row in the record batch. */
static int append_value(struct builder *builder, const struct gsp_rows_column *column,
                        const struct gsp_values *values, size_t row, size_t i, struct gsp_err *err)
{
    static const char ZEROS[sizeof(struct gsp_i128)];
    static const size_t WIDTHS[] = {
        [GSP_CELL_I64] = sizeof(int64_t),   [GSP_CELL_I128] = sizeof(struct gsp_i128),
        [GSP_CELL_F64] = sizeof(double),    [GSP_CELL_BOOL] = sizeof(uint8_t),
        [GSP_CELL_DICT] = sizeof(uint32_t),
    };
    bool is_null = gsp_model_values_is_null(values, row) || !has_string(column, values, row);
    put_bit(&builder->valid, i, !is_null);
    builder->null_count += is_null;
    if (is_text(column->kind))
        return append_text(
            builder, is_null ? (struct gsp_sv){NULL, 0} : gsp_model_cell_text(column, values, row),
            err);
    if (column->kind == GSP_CELL_BOOL) {
        put_bit(&builder->data, i, !is_null && ((const uint8_t *)values->data)[row]);
        return GSP_OK;
    }
    size_t width = WIDTHS[column->kind];
    gsp_buf_put(&builder->data, is_null ? ZEROS : (const char *)values->data + row * width, width);
    return GSP_OK;
}

static void clear_builders(struct arrow *arrow)
{
    for (size_t i = 0; i < arrow->rows->column_count; i++) {
        struct builder *builder = &arrow->builders[i];
        gsp_buf_clear(&builder->valid);
        gsp_buf_clear(&builder->data);
        gsp_buf_clear(&builder->offsets);
        builder->null_count = 0;
    }
    arrow->row_count = 0;
    arrow->text_bytes = 0;
}

static bool builders_failed(const struct arrow *arrow)
{
    bool failed = false;
    for (size_t i = 0; i < arrow->rows->column_count; i++) {
        const struct builder *builder = &arrow->builders[i];
        failed = failed || builder->valid.failed || builder->data.failed || builder->offsets.failed;
    }
    return failed;
}

/* Writes the current record batch and clears it. */
static int flush(struct arrow *arrow, struct gsp_err *err)
{
    if (arrow->row_count == 0)
        return GSP_OK;
    if (builders_failed(arrow))
        return gsp_err_nomem(err);
    clear_body(&arrow->body);
    for (size_t i = 0; i < arrow->rows->column_count; i++) {
        const struct builder *builder = &arrow->builders[i];
        add_node(&arrow->body, arrow->row_count, builder->null_count);
        add_buffer(&arrow->body, builder->null_count ? &builder->valid : NULL);
        if (is_text(arrow->rows->columns[i].kind))
            add_buffer(&arrow->body, &builder->offsets);
        add_buffer(&arrow->body, &builder->data);
    }
    struct gsp_fb fb = {0};
    gsp_fb_ref batch = put_batch_table(&fb, &arrow->body, arrow->row_count);
    int rc = put_message(arrow, &fb, batch, HEADER_RECORD_BATCH, err);
    gsp_export__fb_free(&fb);
    clear_builders(arrow);
    return rc;
}

static int put_dictionary(struct arrow *arrow, size_t column, struct gsp_err *err)
{
    const struct gsp_rows_column *source = &arrow->rows->columns[column];
    struct builder *builder = &arrow->builders[column];
    if (source->dict_count > INT32_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a dictionary of %u strings exceeds Arrow's limit",
                           source->dict_count);
    int rc = GSP_OK;
    if (source->dict_count == 0)
        put_offset(builder);
    for (uint32_t i = 0; rc == GSP_OK && i < source->dict_count; i++)
        rc = append_text(builder, source->dict[i], err);
    if (rc == GSP_OK && builders_failed(arrow))
        rc = gsp_err_nomem(err);
    if (rc < 0)
        return rc;
    clear_body(&arrow->body);
    add_node(&arrow->body, source->dict_count, 0);
    add_buffer(&arrow->body, NULL);
    add_buffer(&arrow->body, &builder->offsets);
    add_buffer(&arrow->body, &builder->data);
    struct gsp_fb fb = {0};
    gsp_fb_ref data = put_batch_table(&fb, &arrow->body, source->dict_count);
    gsp_export__fb_begin(&fb);
    gsp_export__fb_i64(&fb, 0, (int64_t)column);
    gsp_export__fb_ref_to(&fb, 1, data);
    gsp_fb_ref dictionary = gsp_export__fb_end(&fb);
    rc = put_message(arrow, &fb, dictionary, HEADER_DICTIONARY, err);
    gsp_export__fb_free(&fb);
    clear_builders(arrow);
    return rc;
}

static int append_batch(struct arrow *arrow, const struct gsp_batch_view *batch,
                        struct gsp_err *err)
{
    for (size_t row = 0; row < batch->row_count; row++) {
        for (size_t i = 0; i < arrow->rows->column_count; i++) {
            struct builder *builder = &arrow->builders[i];
            int rc = append_value(builder, &arrow->rows->columns[i], &batch->values[i], row,
                                  arrow->row_count, err);
            if (rc < 0)
                return rc;
            if (is_text(arrow->rows->columns[i].kind) && builder->data.len > arrow->text_bytes)
                arrow->text_bytes = builder->data.len;
        }
        arrow->row_count++;
        if (arrow->row_count == BATCH_ROWS || arrow->text_bytes >= BATCH_TEXT_BYTES) {
            int rc = flush(arrow, err);
            if (rc < 0)
                return rc;
        }
    }
    return GSP_OK;
}

static int put_rows(struct arrow *arrow, struct gsp_err *err)
{
    static const uint32_t END[2] = {CONTINUATION, 0};
    int rc = put_schema(arrow, err);
    for (size_t i = 0; rc == GSP_OK && i < arrow->rows->column_count; i++)
        if (arrow->rows->columns[i].kind == GSP_CELL_DICT)
            rc = put_dictionary(arrow, i, err);
    struct gsp_batch_view batch;
    int more = 0;
    while (rc == GSP_OK && !arrow->out->failed &&
           (more = gsp_rows_next(arrow->rows, &batch, err)) == 1)
        rc = append_batch(arrow, &batch, err);
    if (rc < 0 || more < 0)
        return rc < 0 ? rc : more;
    rc = flush(arrow, err);
    if (rc == GSP_OK && !arrow->out->failed)
        gsp_buf_put(&arrow->out->buf, END, sizeof(END));
    return rc;
}

int gsp_export_rows_write_arrow(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err)
{
    size_t count = rows->column_count + 1;
    struct arrow arrow = {.rows = rows, .out = out};
    arrow.builders = calloc(count, sizeof(*arrow.builders));
    arrow.body.nodes = calloc(count, 2 * sizeof(*arrow.body.nodes));
    arrow.body.buffers = calloc(count, 2 * BUFFERS_PER_COLUMN * sizeof(*arrow.body.buffers));
    arrow.body.parts = calloc(count, BUFFERS_PER_COLUMN * sizeof(*arrow.body.parts));
    int rc = GSP_OK;
    if (!arrow.builders || !arrow.body.nodes || !arrow.body.buffers || !arrow.body.parts)
        rc = gsp_err_nomem(err);
    else
        rc = put_rows(&arrow, err);
    for (size_t i = 0; arrow.builders && i < rows->column_count; i++) {
        gsp_buf_free(&arrow.builders[i].valid);
        gsp_buf_free(&arrow.builders[i].data);
        gsp_buf_free(&arrow.builders[i].offsets);
    }
    free(arrow.builders);
    free(arrow.body.nodes);
    free(arrow.body.buffers);
    free(arrow.body.parts);
    return rc;
}
