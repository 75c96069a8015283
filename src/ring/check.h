/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h -- what a ring file says of itself, copied and believed only as far as it is true.
 *
 * Reads:   the head, the columns and the dictionary's head of a ring file.
 * Used by: reader.c.
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "ring/reader.h"

/* Where everything is; all of it lies within the file, in order and without overlap, but for
 * lanes, which may still come. */
struct gsp_ring__shape {
    uint64_t lanes_off;
    uint64_t lane_bytes;
    uint64_t text_off;
    uint64_t text_bytes;
    uint64_t strings_off;
    uint64_t bytes_off; /* of the dictionary's bytes, in the file */
    uint64_t bytes_max;
    uint64_t refs_off;
    uint32_t string_max;
    uint32_t row_slots;
    uint32_t lane_max;
    uint32_t pad;
};

/* Fails with FORMAT, VERSION, IO. */
GSP_MUST_CHECK int gsp_ring__check(int fd, uint64_t file_bytes, struct gsp_ring_info *info,
                                   struct gsp_ring__shape *shape, struct gsp_err *err);
