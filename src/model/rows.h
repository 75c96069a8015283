/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h -- the rows of a query result, batch by batch, for formatters.
 *
 * Gives:   typed columns in arrays; a formatter does not depend on the engine behind them.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum gsp_cell_kind {
    GSP_CELL_I64,  /* int64_t[] */
    GSP_CELL_I128, /* struct gsp_i128[]: sums of integers */
    GSP_CELL_F64,  /* double[] */
    GSP_CELL_BOOL, /* uint8_t[]: 0, 1 */
    GSP_CELL_TEXT, /* struct gsp_sv[] */
    GSP_CELL_JSON, /* struct gsp_sv[]: well-formed JSON (lists, structs, maps) */
    GSP_CELL_DICT, /* uint32_t[] into the column's dictionary */
};

struct gsp_i128 {
    uint64_t low;
    int64_t high;
};

struct gsp_rows_column {
    const char *name;          /* from the query: may be empty, repeated, any UTF-8 */
    const char *sql_type;      /* "BIGINT", "VARCHAR", "TIMESTAMP", "ENUM"; for display */
    const struct gsp_sv *dict; /* DICT: the strings; the same for all batches */
    uint32_t dict_count;
    enum gsp_cell_kind kind;
};

/* One column of one batch. */
struct gsp_values {
    const void *data;      /* row_count elements of the kind's type */
    const uint64_t *valid; /* bit i of word i / 64: row i is not NULL; NULL: none is NULL */
};

struct gsp_batch_view {
    size_t row_count;
    const struct gsp_values *values; /* one per column */
};

struct gsp_rows;

struct gsp_rows_ops {
    /* Returns 1 and the next batch, borrowed until the next call; 0 at the end; a negative error
     * (INTR, TIMEOUT, LIMIT, ...). */
    int (*next)(struct gsp_rows *rows, struct gsp_batch_view *out, struct gsp_err *err);
    void (*free)(struct gsp_rows *rows);
};

struct gsp_rows {
    const struct gsp_rows_ops *ops;
    const struct gsp_rows_column *columns;
    size_t column_count;
    /* Set when next() has returned 0: the row limit cut the result here. */
    bool truncated;
};

GSP_MUST_CHECK static inline int gsp_rows_next(struct gsp_rows *rows, struct gsp_batch_view *out,
                                               struct gsp_err *err)
{
    return rows->ops->next(rows, out, err);
}

static inline void gsp_rows_free(struct gsp_rows *rows) /* NULL does nothing */
{
    if (rows)
        rows->ops->free(rows);
}

static inline bool gsp_model_values_is_null(const struct gsp_values *values, size_t row)
{
    return values->valid && ((values->valid[row / 64] >> (row % 64)) & 1) == 0;
}
