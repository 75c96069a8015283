/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/batch_internal.h"
#include "store/catalog.h"

/* Rows [from, to) are one span; a batch has one lane and nothing in it is overwritten. */

static int refresh(struct gsp_source *source, bool *changed, struct gsp_err *err)
{
    (void)err;
    const struct gsp_batch *batch = source->impl;
    uint32_t count = 0;
    source->strings = gsp_batch_strings(batch, &count);
    source->row_count = gsp_batch_rows(batch);
    *changed = *changed || count != source->string_count || !source->places;
    source->string_count = count;
    return GSP_OK;
}

/* The column that has the time of a row; NULL when rows have none. */
static const int64_t *times(const struct gsp_batch *batch)
{
    const struct gsp_table *table = gsp_batch_table(batch);
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (strcmp(table->columns[c].name, "ts_ns") == 0) {
            return gsp_batch_column(batch, c);
        }
    }
    return NULL;
}

static int select_rows(const struct gsp_source *source, const struct gsp_time_range *range,
                       struct gsp_spans *out, struct gsp_err *err)
{
    const int64_t *ts_ns = times(source->impl);
    if (!ts_ns || (range->from_ns == INT64_MIN && range->to_ns == INT64_MAX)) {
        const struct gsp_source_span all = {0, source->row_count, 0};
        return all.to > 0 ? gsp_store__spans_add(out, all, err) : GSP_OK;
    }
    /* Rows need not be in order of time: every run of rows in the range is a span. */
    uint64_t row = 0;
    while (row < source->row_count) {
        while (row < source->row_count &&
               (ts_ns[row] < range->from_ns || ts_ns[row] > range->to_ns)) {
            row++;
        }
        const uint64_t from = row;
        while (row < source->row_count && ts_ns[row] >= range->from_ns &&
               ts_ns[row] <= range->to_ns) {
            row++;
        }
        const int rc = row > from
                           ? gsp_store__spans_add(out, (struct gsp_source_span){from, row, 0}, err)
                           : GSP_OK;
        if (rc != GSP_OK) {
            return rc;
        }
    }
    return GSP_OK;
}

static const void *values(const struct gsp_source *source, uint32_t lane, uint32_t column,
                          uint64_t from, size_t *n)
{
    (void)lane;
    (void)n;
    const struct gsp_batch *batch = source->impl;
    const enum gsp_type type = gsp_batch_table(batch)->columns[column].type;
    const size_t width = type == GSP_TEXT ? sizeof(struct gsp_sv) : gsp_type_width(type);
    return (const char *)gsp_batch_column(batch, column) + from * width;
}

static uint64_t oldest(const struct gsp_source *source, uint32_t lane)
{
    (void)source;
    (void)lane;
    return 0;
}

static bool text(const struct gsp_source *source, uint32_t lane, const void *value,
                 struct gsp_buf *out, bool *gone)
{
    (void)source;
    (void)lane;
    (void)gone;
    struct gsp_sv bytes = {NULL, 0};
    memcpy(&bytes, value, sizeof(bytes));
    if (!bytes.p) {
        return false;
    }
    gsp_buf_putsv(out, bytes);
    return true;
}

static void free_batch(struct gsp_source *source)
{
    gsp_batch_free(source->impl);
}

static const struct gsp_source_ops ops = {
    .refresh = refresh,
    .select = select_rows,
    .values = values,
    .oldest = oldest,
    .text = text,
    .text_width = sizeof(struct gsp_sv),
    .free = free_batch,
};

int gsp_store__batch_source(struct gsp_batch *batch, struct gsp_source **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_source *source = calloc(1, sizeof(*source));
    if (!source) {
        gsp_batch_free(batch);
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a table");
    }
    const struct gsp_batch_about about = gsp_store__batch_about(batch);
    source->ops = &ops;
    source->impl = batch;
    source->host = about.host;
    source->pid = about.pid;
    source->rank = about.rank;
    *out = source;
    return GSP_OK;
}
