/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_ring.h -- a ring as a source of a table, and what was lost in it.
 *
 * Used by: store/ alone.
 * Threads: as catalog.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ring/reader.h"
#include "store/catalog.h"
#include "store/store.h"

/* Takes the view, also on failure; first may be NULL. */
GSP_MUST_CHECK int gsp_store__ring_source(struct gsp_ring_view *view,
                                          const struct gsp_first_rows *first,
                                          struct gsp_source **out, struct gsp_err *err);

struct gsp_ring_loss {
    uint64_t overwritten; /* rows that were there and are not any more */
    uint64_t rows_lost;   /* for want of a lane */
    uint64_t rows_no_file;
    uint64_t strings_lost;
    uint64_t texts_lost; /* overwritten before their rows were */
    uint64_t missed;     /* overwritten while queries read rows before and behind them */
    bool damaged;        /* the file was cut */
};

/* False when the source is no ring. */
bool gsp_store__ring_loss(const struct gsp_source *source, struct gsp_ring_loss *out);
