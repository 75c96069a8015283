/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_query.h -- runs a query and returns the result as one line.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "store/store.h"
#include "tap.h"

static inline struct gsp_store *open_store(const struct gsp_store_options *options)
{
    struct gsp_store *store = NULL;
    struct gsp_err err = {0};
    const int rc = gsp_store_open(options, &store, &err);
    if (rc == GSP_E_NOTSUP)
        tap_skip(err.msg);
    if (!store)
        printf("# %s\n", err.msg);
    tap_require(rc == GSP_OK && store);
    return store;
}

static inline void lock_store(struct gsp_store *store)
{
    struct gsp_err err = {0};
    if (gsp_store_lock(store, &err) != GSP_OK) {
        printf("# %s\n", err.msg);
        tap_require(false);
    }
}

static inline void put_i128(struct gsp_buf *out, struct gsp_i128 v)
{
    if (v.high == 0 || (v.high == -1 && (int64_t)v.low < 0))
        gsp_buf_printf(out, "%s%llu", v.high ? "-" : "",
                       (unsigned long long)(v.high ? 0 - v.low : v.low));
    else
        gsp_buf_printf(out, "%lld*2^64+%llu", (long long)v.high, (unsigned long long)v.low);
}

static inline void put_value(struct gsp_buf *out, const struct gsp_rows_column *column,
                             const struct gsp_values *values, size_t row)
{
    if (gsp_model_values_is_null(values, row)) {
        gsp_buf_puts(out, "NULL");
        return;
    }
    switch (column->kind) {
    case GSP_CELL_I64:
        gsp_buf_printf(out, "%lld", (long long)((const int64_t *)values->data)[row]);
        break;
    case GSP_CELL_I128:
        put_i128(out, ((const struct gsp_i128 *)values->data)[row]);
        break;
    case GSP_CELL_F64:
        gsp_buf_printf(out, "%.10g", ((const double *)values->data)[row]);
        break;
    case GSP_CELL_BOOL:
        gsp_buf_puts(out, ((const uint8_t *)values->data)[row] ? "true" : "false");
        break;
    case GSP_CELL_TEXT:
    case GSP_CELL_JSON:
        gsp_buf_putsv(out, ((const struct gsp_sv *)values->data)[row]);
        break;
    case GSP_CELL_DICT: {
        const uint32_t id = ((const uint32_t *)values->data)[row];
        tap_require(id < column->dict_count);
        gsp_buf_putsv(out, column->dict[id]);
        break;
    }
    }
}

/* Returns the result as "a,b;c,d", or an error as "! code message". */
static inline const char *query(struct gsp_store *store, const char *sql, struct gsp_buf *out)
{
    struct gsp_rows *rows = NULL;
    struct gsp_err err = {0};
    gsp_buf_clear(out);
    int rc = gsp_store_query(store, gsp_sv_of(sql), &rows, NULL, &err);
    struct gsp_batch_view view;
    while (rc >= 0 && (rc = gsp_rows_next(rows, &view, &err)) > 0) {
        for (size_t i = 0; i < view.row_count; i++) {
            gsp_buf_puts(out, out->len ? ";" : "");
            for (size_t c = 0; c < rows->column_count; c++) {
                gsp_buf_puts(out, c ? "," : "");
                put_value(out, &rows->columns[c], &view.values[c], i);
            }
        }
    }
    if (rc < 0)
        gsp_buf_printf(out, "! %s %s", gsp_err_name(rc), err.msg);
    else if (rows->truncated)
        gsp_buf_puts(out, " ...");
    gsp_rows_free(rows);
    return gsp_buf_cstr(out);
}
