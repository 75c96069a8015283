/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_sink.h -- rows of any table into the rings of a process that is looked at from outside.
 *
 * A ring is made when its first row comes.  Rows that have no ring are counted.
 * Used by: follow.c.
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
    struct gsp_collect_sink sink; /* what sources write to; first */
    int folder_fd;                /* borrowed */
    int32_t pid;
    uint64_t start_time;
    int64_t rank;
    struct gsp_ring *rings[GSP_TABLE_COUNT];
    bool no_ring[GSP_TABLE_COUNT]; /* could not be made */
    uint64_t rows_lost;
    struct gsp_err err; /* of the first ring that could not be made; code 0: all could */
};

/* Fills the functions; the caller fills the rest. */
void gsp_ring_sink_init(struct gsp_ring_sink *sink);
void gsp_ring_sink_close(struct gsp_ring_sink *sink);

uint32_t gsp_ring_sink_intern(struct gsp_ring_sink *sink, enum gsp_table_id table,
                              struct gsp_sv text);
/* Strings of the row are ids of this table's ring. */
void gsp_ring_sink_row(struct gsp_ring_sink *sink, enum gsp_table_id table, const void *row);
