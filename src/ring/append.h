/* SPDX-License-Identifier: Apache-2.0 */
/*
 * append.h -- appends a row of a table that is known at compile time: a few stores.
 *
 * Gives:   gsp_append_<schema>_<table>(lane, row) for every table of tables.def.
 * Threads: only the thread that owns the lane.
 * Always inline, so that values go from registers to the ring. Building the row in memory first
 * takes 50 % longer.
 * Signal-safe: yes, with a lane from gsp_ring_lane().
 * Allocates: never.
 */
#pragma once

#include <stdatomic.h>

#include "ring/writer.h"

/* Returns the index to write to. Sets busy first, so that a signal handler that interrupts the
 * append uses another lane. A handler that ran before has already updated rows and slot. */
static inline uint32_t gsp_lane_begin(struct gsp_lane *lane)
{
    lane->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    /* Stores the values of row n after `rows` became n. Partner: the fence of
     * gsp_ring_oldest_row(). */
    atomic_thread_fence(memory_order_release);
    return lane->slot;
}

static inline void gsp_lane_end(struct gsp_lane *lane)
{
    const uint32_t next = lane->slot + 1;
    lane->slot = next == lane->capacity ? 0 : next;
    /* Publishes the row. Partner: the load of rows in lane_rows() of reader.c. */
    atomic_store_explicit(&lane->head->rows, ++lane->rows, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    lane->busy = 0;
}

/* Relaxed atomic stores compile to plain stores, but tell the compiler that other threads read the
 * values. The two functions above order them. */
static inline void gsp_lane_put_i64(const struct gsp_lane *lane, uint32_t column, uint32_t slot,
                                    int64_t v)
{
    int64_t *values = lane->column[column];
    __atomic_store_n(&values[slot], v, __ATOMIC_RELAXED);
}

static inline void gsp_lane_put_f64(const struct gsp_lane *lane, uint32_t column, uint32_t slot,
                                    double v)
{
    double *values = lane->column[column];
    __atomic_store(&values[slot], &v, __ATOMIC_RELAXED);
}

static inline void gsp_lane_put_bool(const struct gsp_lane *lane, uint32_t column, uint32_t slot,
                                     uint8_t v)
{
    uint8_t *values = lane->column[column];
    __atomic_store_n(&values[slot], v, __ATOMIC_RELAXED);
}

static inline void gsp_lane_put_str(const struct gsp_lane *lane, uint32_t column, uint32_t slot,
                                    uint32_t v)
{
    uint32_t *values = lane->column[column];
    __atomic_store_n(&values[slot], v, __ATOMIC_RELAXED);
}

static inline void gsp_lane_put_text(struct gsp_lane *lane, uint32_t column, uint32_t slot,
                                     struct gsp_sv v)
{
    uint64_t *values = lane->column[column];
    __atomic_store_n(&values[slot], gsp_ring__lane_text(lane, v), __ATOMIC_RELAXED);
}

#define GSP_PUT_I64(name)  gsp_lane_put_i64(lane, column++, slot, row->name);
#define GSP_PUT_F64(name)  gsp_lane_put_f64(lane, column++, slot, row->name);
#define GSP_PUT_BOOL(name) gsp_lane_put_bool(lane, column++, slot, row->name);
#define GSP_PUT_STR(name)  gsp_lane_put_str(lane, column++, slot, row->name);
#define GSP_PUT_TEXT(name) gsp_lane_put_text(lane, column++, slot, row->name);
#define GSP_PUT_TARGET     GSP_PUT_I64(ts_ns) GSP_PUT_I64(mono_ns)
#define GSP_PUT_ROWS       GSP_PUT_TARGET GSP_PUT_I64(pid) GSP_PUT_I64(rank)
#define GSP_PUT_HOST       GSP_PUT_TARGET
#define GSP_PUT_PLAIN

#define GSP_TABLE(schema, name, scope, doc)                                                        \
    static inline __attribute__((always_inline)) void gsp_append_##schema##_##name(                \
        struct gsp_lane *lane, const struct gsp_row_##schema##_##name *row)                        \
    {                                                                                              \
        const uint32_t slot = gsp_lane_begin(lane);                                                \
        uint32_t column = 0;                                                                       \
        GSP_PUT_##scope
#define GSP_COL(name, type, unit, doc) GSP_PUT_##type(name)
#define GSP_TABLE_END(schema, name)                                                                \
    (void)column;                                                                                  \
    gsp_lane_end(lane);                                                                            \
    }
#include "wire/tables.def"
#undef GSP_TABLE
#undef GSP_COL
#undef GSP_TABLE_END
#undef GSP_PUT_I64
#undef GSP_PUT_F64
#undef GSP_PUT_BOOL
#undef GSP_PUT_STR
#undef GSP_PUT_TEXT
#undef GSP_PUT_TARGET
#undef GSP_PUT_ROWS
#undef GSP_PUT_HOST
#undef GSP_PUT_PLAIN
