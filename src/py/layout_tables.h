/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_tables.h -- what tools/gen_offsets.py generates, for the other files of this folder.
 *
 * Threads: constants.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "py/layout.h"

/* One field of _Py_DebugOffsets and the member of a layout it fills. */
struct gsp_py__debug_field {
    uint16_t member; /* offset in struct gsp_py_layout */
    uint16_t width;  /* of that member, bytes */
    uint16_t align;  /* of what the offset leads to, bytes */
    uint16_t at;     /* in _Py_DebugOffsets; GSP_NO_OFFSET when this version has none */
    uint16_t bound;  /* in _Py_DebugOffsets: the size of the struct that the field is in;
                        GSP_NO_OFFSET when the field is itself a size */
};

/* The _Py_DebugOffsets of one minor version. */
struct gsp_py__debug_table {
    uint32_t minor;
    uint16_t size;             /* sizeof */
    uint16_t at_free_threaded; /* the one field that fills no member */
    const struct gsp_py__debug_field *fields;
    size_t field_count;
};

extern const struct gsp_py_layout gsp_py__layouts[];
extern const size_t gsp_py__layout_count;
extern const struct gsp_py__debug_table gsp_py__debug_tables[];
extern const size_t gsp_py__debug_table_count;
