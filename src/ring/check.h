/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h -- copies and validates the layout of a ring file.
 *
 * Reads:   the head, the columns and the dictionary's head of a ring file.
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "ring/reader.h"

/* The layout of the file. All areas lie within the file, in order and without overlap. Lanes may
 * still be added. */
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

/* Fails with FORMAT, VERSION or IO. */
GSP_MUST_CHECK int gsp_ring__check(int fd, uint64_t file_bytes, struct gsp_ring_info *info,
                                   struct gsp_ring__shape *shape, struct gsp_err *err);
