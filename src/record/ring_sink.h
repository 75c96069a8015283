/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_sink.h -- writes rows of any table to the rings of a process that is followed from outside.
 *
 * A ring is created for its first row. Rows without a ring are counted as lost.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "collect/collect.h"
#include "ring/writer.h"
#include "wire/table.h"

struct gsp_ring_sink {
    struct gsp_collect_sink sink; /* for the collectors; must be first */
    int folder_fd;                /* borrowed */
    int32_t pid;
    uint64_t start_time;
    int64_t rank;
    struct gsp_ring *rings[GSP_TABLE_COUNT];
    bool no_ring[GSP_TABLE_COUNT]; /* could not be created */
    uint64_t rows_lost;
    struct gsp_err err; /* of the first ring that could not be created; code 0: none failed */
};

/* Sets the functions of sink->sink; the caller sets the other members. */
void gsp_record__ring_sink_init(struct gsp_ring_sink *sink);
void gsp_record__ring_sink_close(struct gsp_ring_sink *sink);

uint32_t gsp_record__ring_sink_intern(struct gsp_ring_sink *sink, enum gsp_table_id table,
                                      struct gsp_sv text);
/* Appends a row. Its strings are ids from gsp_record__ring_sink_intern() with the same table. */
void gsp_record__ring_sink_add(struct gsp_ring_sink *sink, enum gsp_table_id table,
                               const void *row);
