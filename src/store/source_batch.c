/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/batch_internal.h"
#include "store/catalog.h"
#include "store/store.h"

/* Computed values in one call of read(). */
#define STEP 512U

/* A batch has one lane, and its rows are never overwritten. */
struct rows {
    struct gsp_batch *batch;
    struct gsp_computed computed; /* read is NULL: the rows are in the batch */
};

/* The strings of a batch are already in memory: they use no budget. */
static int refresh(struct gsp_source *source, struct gsp_string_budget *budget, bool *changed,
                   struct gsp_err *err)
{
    (void)budget;
    (void)err;
    const struct rows *rows = source->impl;
    uint32_t count = 0;
    source->strings = gsp_store__batch_strings(rows->batch, &count);
    source->row_count =
        rows->computed.read ? rows->computed.rows : gsp_store__batch_rows(rows->batch);
    *changed = *changed || count != source->string_count || !source->codes;
    source->string_count = count;
    return GSP_OK;
}

/* Computed values stay valid until the same thread calls again: the caller copies them at once. */
static const void *compute(const struct gsp_computed *computed, uint32_t column, uint64_t from,
                           size_t *n)
{
    static _Thread_local uint64_t values[STEP];
    if (*n > STEP)
        *n = STEP;
    computed->read(computed->ctx, column, from, *n, values);
    return values;
}

static const void *values(const struct gsp_source *source, uint32_t lane, uint32_t column,
                          uint64_t from, size_t *n)
{
    (void)lane;
    const struct rows *rows = source->impl;
    if (rows->computed.read)
        return compute(&rows->computed, column, from, n);
    const enum gsp_type type = gsp_store_batch_table(rows->batch)->columns[column].type;
    const size_t width = type == GSP_TEXT ? sizeof(struct gsp_sv) : gsp_wire_type_width(type);
    return (const char *)gsp_store__batch_column(rows->batch, column) + from * width;
}

/* Returns the index of ts_ns, or column_count if the table has no such column. */
static uint32_t time_column(const struct gsp_table *table)
{
    uint32_t column = 0;
    while (column < table->column_count && strcmp(table->columns[column].name, "ts_ns") != 0)
        column++;
    return column;
}

static bool in_range(int64_t ts_ns, const struct gsp_time_range *range)
{
    return ts_ns >= range->from_ns && ts_ns <= range->to_ns;
}

/* Rows need not be ordered by time: each run of rows in the range becomes a span. */
static int select_rows(const struct gsp_source *source, const struct gsp_time_range *range,
                       struct gsp_spans *out, struct gsp_err *err)
{
    const struct rows *rows = source->impl;
    const struct gsp_table *table = gsp_store_batch_table(rows->batch);
    const uint32_t column = time_column(table);
    struct gsp_source_span span = {0, source->row_count, 0};
    if (column == table->column_count || (range->from_ns == INT64_MIN && range->to_ns == INT64_MAX))
        return span.to > 0 ? gsp_store__spans_add(out, span, err) : GSP_OK;
    int rc = GSP_OK;
    span.to = 0;
    for (uint64_t row = 0; row < source->row_count && rc == GSP_OK;) {
        size_t n = (size_t)(source->row_count - row);
        const int64_t *ts_ns = values(source, 0, column, row, &n);
        for (size_t i = 0; i < n && rc == GSP_OK; i++) {
            if (!in_range(ts_ns[i], range))
                continue;
            if (span.to != row + i) {
                rc = span.to > span.from ? gsp_store__spans_add(out, span, err) : GSP_OK;
                span.from = row + i;
            }
            span.to = row + i + 1;
        }
        row += n;
    }
    return rc == GSP_OK && span.to > span.from ? gsp_store__spans_add(out, span, err) : rc;
}

static uint64_t oldest(const struct gsp_source *source, uint32_t lane)
{
    (void)source;
    (void)lane;
    return 0;
}

/* Computed tables have no TEXT columns. */
static bool text(const struct gsp_source *source, uint32_t lane, const void *value,
                 struct gsp_buf *out, bool *gone)
{
    (void)source;
    (void)lane;
    (void)gone;
    struct gsp_sv bytes = {NULL, 0};
    memcpy(&bytes, value, sizeof(bytes));
    if (!bytes.p)
        return false;
    gsp_buf_putsv(out, bytes);
    return true;
}

static void free_rows(struct gsp_source *source)
{
    struct rows *rows = source->impl;
    if (rows->computed.free)
        rows->computed.free(rows->computed.ctx);
    gsp_store_batch_free(rows->batch);
    free(rows);
}

static const struct gsp_source_ops ops = {
    .refresh = refresh,
    .select = select_rows,
    .values = values,
    .oldest = oldest,
    .text = text,
    .text_width = sizeof(struct gsp_sv),
    .free = free_rows,
};

int gsp_store__batch_source_new(struct gsp_batch *batch, const struct gsp_computed *computed,
                                struct gsp_source **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_source *source = calloc(1, sizeof(*source));
    struct rows *rows = calloc(1, sizeof(*rows));
    if (!source || !rows) {
        if (computed && computed->free)
            computed->free(computed->ctx);
        gsp_store_batch_free(batch);
        free(source);
        free(rows);
        return gsp_err_nomem(err);
    }
    rows->batch = batch;
    if (computed)
        rows->computed = *computed;
    const struct gsp_batch_about about = gsp_store__batch_about(batch);
    source->ops = &ops;
    source->impl = rows;
    source->host = about.host;
    source->pid = about.pid;
    source->rank = about.rank;
    *out = source;
    return GSP_OK;
}
