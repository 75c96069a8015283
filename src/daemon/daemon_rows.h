/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_rows.h -- where the rows of the sources go: to the rings of the daemon's own place, to
 * the frame that is being made, and, the newest of them, to whoever asks.
 *
 * Strings have one id here and another in each of those; rows are rewritten on their way.
 * Used by: daemon.c (fills), prometheus.c, routes_status.c (read).
 * Threads: one writer; gsp_rows_lock() for readers of the newest rows.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "collect/collect.h"
#include "ring/writer.h"
#include "wire/table.h"

/* A string that sources named. */
struct gsp_word {
    char *text;
    uint32_t len;
    uint32_t ring_id;
    uint32_t frame_id;
};

/* The rows of one tick, one behind the other: a number of a table, then its struct. */
struct gsp_row_set {
    struct gsp_buf bytes;
    struct gsp_collect_tick tick;
    uint64_t serial; /* ticks so far */
};

struct gsp_rows_out {
    struct gsp_collect_sink sink;    /* what sources write to; first */
    struct gsp_collect_sink *frames; /* borrowed */
    struct gsp_ring *rings[GSP_TABLE_COUNT];
    bool no_ring[GSP_TABLE_COUNT]; /* could not be made */
    char ring_error[240];          /* why; under the lock */
    int folder_fd;                 /* of the place; -1: no rings */
    uint32_t row_capacity;         /* 0: GSP_RING_ROWS_DEFAULT */
    struct gsp_hmap index;
    struct gsp_word *words; /* under the lock when it grows */
    size_t word_count;
    size_t word_cap;
    _Atomic uint64_t words_lost;
    _Atomic uint64_t rows_lost; /* that the rings had no room for */
    struct gsp_row_set coming;
    pthread_mutex_t lock;
    struct gsp_row_set newest; /* under the lock */
    struct gsp_buf devices;    /* rows of gpu.device, the newest of each; under the lock */
};

/* frames may be NULL. */
void gsp_rows_out_init(struct gsp_rows_out *out, struct gsp_collect_sink *frames, int folder_fd,
                       uint32_t row_capacity);
void gsp_rows_out_free(struct gsp_rows_out *out);

/* One tick: begin, rows through out->sink, end. */
void gsp_rows_begin(struct gsp_rows_out *out, const struct gsp_collect_tick *tick);
void gsp_rows_end(struct gsp_rows_out *out);
/* A row for the rings alone. */
void gsp_rows_to_ring(struct gsp_rows_out *out, enum gsp_table_id table, const void *row);

/* The newest rows: between lock and unlock, from at = 0 on.  NULL past the last. */
void gsp_rows_lock(struct gsp_rows_out *out);
void gsp_rows_unlock(struct gsp_rows_out *out);
const void *gsp_rows_each(const struct gsp_rows_out *out, size_t *at, enum gsp_table_id *table);
/* What is known of a GPU: its row comes once, not at every tick.  NULL: nothing.  Under the lock.
 */
const struct gsp_row_gpu_device *gsp_rows_gpu(const struct gsp_rows_out *out, int64_t gpu);
/* The text of a STR column; {NULL, 0} for NULL. */
struct gsp_sv gsp_rows_text(const struct gsp_rows_out *out, uint32_t id);
