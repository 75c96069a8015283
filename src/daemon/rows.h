/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h -- distributes the rows of the sources: to the rings in the daemon's own ring
 * directory, to the metric frame that is being made, and to readers of the newest rows.
 *
 * A string has one id here and others in the rings and in the frames. The ids in a row are
 * translated before it is passed on.
 *
 * Threads: one writer; any number of readers of the newest rows, between gsp_daemon__rows_lock()
 * and gsp_daemon__rows_unlock().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/map.h"
#include "collect/collect.h"
#include "ring/writer.h"
#include "wire/table.h"

/* An interned string. */
struct gsp_daemon_string {
    char *text;
    uint32_t len;
    uint32_t ring_id;
    uint32_t frame_id;
};

/* The rows of one tick in sequence: the number of the table as uint64_t, then the row struct. */
struct gsp_daemon_row_set {
    struct gsp_buf bytes;
    struct gsp_collect_tick tick;
    uint64_t serial; /* number of the tick */
};

struct gsp_daemon_rows {
    struct gsp_collect_sink sink;    /* first: sources write to it, and it is cast back */
    struct gsp_collect_sink *frames; /* borrowed */
    struct gsp_ring *rings[GSP_TABLE_COUNT];
    bool no_ring[GSP_TABLE_COUNT]; /* the ring could not be created */
    int folder_fd;                 /* of the ring directory; -1: no rings */
    uint32_t row_capacity;         /* 0: GSP_RING_ROWS_DEFAULT */
    struct gsp_hmap index;
    _Atomic uint64_t words_lost;
    _Atomic uint64_t rows_lost;       /* ring full */
    struct gsp_daemon_row_set coming; /* of the tick that is being collected */

    /* The writer may read these without the lock. */
    struct gsp_lock lock;
    struct gsp_daemon_string *words GSP_GUARDED_BY(lock);
    size_t word_count GSP_GUARDED_BY(lock);
    size_t word_cap GSP_GUARDED_BY(lock);
    char ring_error[240] GSP_GUARDED_BY(lock); /* why a ring could not be created */
    struct gsp_daemon_row_set newest GSP_GUARDED_BY(lock);
    struct gsp_buf devices GSP_GUARDED_BY(lock); /* the newest gpu.device row of each GPU */
};

/* frames may be NULL. */
void gsp_daemon__rows_init(struct gsp_daemon_rows *out, struct gsp_collect_sink *frames,
                           int folder_fd, uint32_t row_capacity);
void gsp_daemon__rows_free(struct gsp_daemon_rows *out);

/* One tick: begin, rows through out->sink, end. */
void gsp_daemon__rows_begin(struct gsp_daemon_rows *out, const struct gsp_collect_tick *tick);
void gsp_daemon__rows_end(struct gsp_daemon_rows *out);
/* Adds a row to the rings only. */
void gsp_daemon__rows_add_to_ring(struct gsp_daemon_rows *out, enum gsp_table_id table,
                                  const void *row);

void gsp_daemon__rows_lock(struct gsp_daemon_rows *out) GSP_ACQUIRE(&out->lock);
void gsp_daemon__rows_unlock(struct gsp_daemon_rows *out) GSP_RELEASE(&out->lock);
/* Iterates over the newest rows; start with *at = 0. Returns NULL past the last one. */
const void *gsp_daemon__rows_next(const struct gsp_daemon_rows *out, size_t *at,
                                  enum gsp_table_id *table) GSP_REQUIRES(&out->lock);
/* The newest row of gpu.device for a GPU, or NULL. Sources write it once, not at every tick. */
const struct gsp_row_gpu_device *gsp_daemon__rows_gpu_device(const struct gsp_daemon_rows *out,
                                                             int64_t gpu) GSP_REQUIRES(&out->lock);
/* The text of a STR column; {NULL, 0} for NULL. */
struct gsp_sv gsp_daemon__rows_text(const struct gsp_daemon_rows *out, uint32_t id)
    GSP_REQUIRES(&out->lock);
