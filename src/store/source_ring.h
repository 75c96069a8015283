/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_ring.h -- a ring as a source of a table, and its losses.
 *
 * Threads: as catalog.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ring/reader.h"
#include "store/catalog.h"
#include "store/store.h"

/* Takes ownership of the view, also on failure. first may be NULL. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store__ring_source_new(struct gsp_ring_view *view,
                                              const struct gsp_ring_start *first,
                                              struct gsp_source **out, struct gsp_err *err);

struct gsp_source_loss {
    uint64_t overwritten;  /* rows */
    uint64_t rows_lost;    /* no lane was free */
    uint64_t rows_no_file; /* the file could not be opened */
    uint64_t strings_lost; /* the dictionary was full */
    uint64_t texts_lost;   /* overwritten before their rows */
    uint64_t missed;       /* rows overwritten while queries read the rows around them */
    bool damaged;          /* the file was truncated */
};

/* Returns false if the source is not a ring. */
bool gsp_store__ring_loss(const struct gsp_source *source, struct gsp_source_loss *out);
