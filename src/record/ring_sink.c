/* SPDX-License-Identifier: Apache-2.0 */
#include "record/ring_sink.h"

#include "ring/guard.h"

/* One hour at one row per second. */
#define ROWS_MAX 4096U

static struct gsp_ring *ring_of(struct gsp_ring_sink *sink, enum gsp_table_id table)
{
    if (sink->rings[table] || sink->no_ring[table])
        return sink->rings[table];
    const struct gsp_ring_spec spec = {.table = gsp_wire_table_at(table),
                                       .row_capacity = ROWS_MAX,
                                       .lane_max = 1,
                                       .string_max = 1024,
                                       .string_bytes = 64U << 10,
                                       .text_bytes = 64U << 10,
                                       .pid = sink->pid,
                                       .start_time = sink->start_time,
                                       .rank = sink->rank,
                                       /* The agent has a ring of this table, too. */
                                       .keeps_old = table == GSP_TABLE_gsprof_loss,
                                       .guard = &gsp_ring_guard};
    sink->no_ring[table] = gsp_ring_create(sink->folder_fd, &spec, &sink->rings[table],
                                           sink->err.code ? NULL : &sink->err) != GSP_OK;
    return sink->rings[table];
}

uint32_t gsp_record__ring_sink_intern(struct gsp_ring_sink *sink, enum gsp_table_id table,
                                      struct gsp_sv text)
{
    struct gsp_ring *ring = ring_of(sink, table);
    return ring ? gsp_ring_intern(ring, text) : GSP_NULL_STR;
}

void gsp_record__ring_sink_add(struct gsp_ring_sink *sink, enum gsp_table_id table, const void *row)
{
    struct gsp_ring *ring = ring_of(sink, table);
    if (!ring || !gsp_ring_append(ring, row))
        sink->rows_lost++;
}

static uint32_t intern(struct gsp_collect_sink *sink, enum gsp_table_id table, struct gsp_sv text)
{
    return gsp_record__ring_sink_intern((struct gsp_ring_sink *)(void *)sink, table, text);
}

static void put_row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row)
{
    gsp_record__ring_sink_add((struct gsp_ring_sink *)(void *)sink, table, row);
}

void gsp_record__ring_sink_init(struct gsp_ring_sink *sink)
{
    sink->sink = (struct gsp_collect_sink){intern, put_row};
}

void gsp_record__ring_sink_close(struct gsp_ring_sink *sink)
{
    for (size_t i = 0; i < GSP_TABLE_COUNT; i++) {
        gsp_ring_close(sink->rings[i]);
        sink->rings[i] = NULL;
    }
}
