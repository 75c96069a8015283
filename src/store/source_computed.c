/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/batch_internal.h"
#include "store/catalog.h"
#include "store/store_internal.h"

/* Values that are worked out at a time. */
#define STEP 512U

struct computed {
    struct gsp_batch *batch; /* strings and constants */
    struct gsp_computed from;
};

static void free_computed(struct computed *computed)
{
    if (computed->from.free) {
        computed->from.free(computed->from.ctx);
    }
    gsp_batch_free(computed->batch);
    free(computed);
}

static int refresh(struct gsp_source *source, bool *changed, struct gsp_err *err)
{
    (void)err;
    const struct computed *computed = source->impl;
    uint32_t count = 0;
    source->strings = gsp_batch_strings(computed->batch, &count);
    source->row_count = computed->from.rows;
    *changed = *changed || count != source->string_count || !source->places;
    source->string_count = count;
    return GSP_OK;
}

/* The values live until the same thread asks again: they are copied at once. */
static const void *values(const struct gsp_source *source, uint32_t lane, uint32_t column,
                          uint64_t from, size_t *n)
{
    static _Thread_local uint64_t room[STEP];
    (void)lane;
    const struct computed *computed = source->impl;
    if (*n > STEP) {
        *n = STEP;
    }
    computed->from.read(computed->from.ctx, column, from, *n, room);
    return room;
}

/* The column that has the time of a row; column_count when rows have none. */
static uint32_t time_column(const struct gsp_table *table)
{
    uint32_t column = 0;
    while (column < table->column_count && strcmp(table->columns[column].name, "ts_ns") != 0) {
        column++;
    }
    return column;
}

static bool in_range(int64_t ts_ns, const struct gsp_time_range *range)
{
    return ts_ns >= range->from_ns && ts_ns <= range->to_ns;
}

static int select_rows(const struct gsp_source *source, const struct gsp_time_range *range,
                       struct gsp_spans *out, struct gsp_err *err)
{
    const struct computed *computed = source->impl;
    const struct gsp_table *table = gsp_batch_table(computed->batch);
    const uint32_t column = time_column(table);
    struct gsp_source_span span = {0, source->row_count, 0};
    if (column == table->column_count ||
        (range->from_ns == INT64_MIN && range->to_ns == INT64_MAX)) {
        return span.to > 0 ? gsp_store__spans_add(out, span, err) : GSP_OK;
    }
    int rc = GSP_OK;
    span.to = 0;
    for (uint64_t row = 0; row < source->row_count && rc == GSP_OK;) {
        size_t n = source->row_count - row < STEP ? (size_t)(source->row_count - row) : STEP;
        const int64_t *ts_ns = values(source, 0, column, row, &n);
        for (size_t i = 0; i < n && rc == GSP_OK; i++) {
            if (!in_range(ts_ns[i], range)) {
                continue;
            }
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

static bool text(const struct gsp_source *source, uint32_t lane, const void *value,
                 struct gsp_buf *out, bool *gone)
{
    (void)source;
    (void)lane;
    (void)value;
    (void)out;
    (void)gone;
    return false;
}

static void free_impl(struct gsp_source *source)
{
    free_computed(source->impl);
}

static const struct gsp_source_ops ops = {
    .refresh = refresh,
    .select = select_rows,
    .values = values,
    .oldest = oldest,
    .text = text,
    .text_width = sizeof(uint64_t),
    .free = free_impl,
};

static int make_source(struct computed *computed, struct gsp_source **out, struct gsp_err *err)
{
    struct gsp_source *source = calloc(1, sizeof(*source));
    if (!source) {
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a table");
    }
    const struct gsp_batch_about about = gsp_store__batch_about(computed->batch);
    source->ops = &ops;
    source->impl = computed;
    source->host = about.host;
    source->pid = about.pid;
    source->rank = about.rank;
    *out = source;
    return GSP_OK;
}

int gsp_store_add_computed(struct gsp_store *store, struct gsp_batch *batch,
                           const struct gsp_computed *computed, struct gsp_err *err)
{
    const struct gsp_table *table = gsp_batch_table(batch);
    struct gsp_view *view = NULL;
    struct gsp_source *source = NULL;
    struct computed *kept = calloc(1, sizeof(*kept));
    if (!kept) {
        if (computed->free) {
            computed->free(computed->ctx);
        }
        gsp_batch_free(batch);
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a table");
    }
    *kept = (struct computed){batch, *computed};
    int rc = gsp_store__check_open(store, err);
    if (rc == GSP_OK) {
        rc = gsp_store__view_get(&store->catalog, table->schema, table->name, &view, err);
    }
    if (rc == GSP_OK) {
        rc = make_source(kept, &source, err);
    }
    if (rc != GSP_OK) {
        free_computed(kept);
        return rc;
    }
    return gsp_store__add_batch_source(view, source, table, err);
}
