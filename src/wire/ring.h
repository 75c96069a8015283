/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h -- the format of a ring file: the newest rows of a table in shared memory.
 *
 *   struct gsp_ring_head   one page
 *   struct gsp_ring_column one for each column in the rows
 *   strings                the table's dictionary: append-only
 *   lanes                  one for each writing thread: added at the end, never moved
 *
 * A lane is a ring buffer with one writer. It has one array of row_capacity values per column, in
 * Arrow's layout (fixed width, little endian, NULLs as in wire/table.h). Row number n is at index
 * n % row_capacity of every column. lane->rows is the number of published rows. The writer stores
 * the values of row n while lane->rows is n, and then increments it. So a reader that copies rows
 * and then reads lane->rows knows which of them may have been overwritten: those with a number of
 * at most rows - row_capacity. To keep N rows per thread, a ring needs a row_capacity of N + 1.
 *
 * See also docs/formats/ring.md.
 * Threads: atomic members are written while others read.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/table.h"

#define GSP_RING_MAGIC        "GSPRING1"
#define GSP_RING_VERSION      1U
#define GSP_RING_BYTE_ORDER   0x01020304U
#define GSP_RING_ALIGN        4096U /* of the strings and of each lane in the file */
#define GSP_RING_COLUMN_ALIGN 64U   /* of each column's array in its lane */
#define GSP_RING_ROWS_DEFAULT 10000U
#define GSP_RING_ROWS_LIMIT   10000000 /* of the setting ring.rows */
#define GSP_RING_ROWS_MAX     (1U << 28)
#define GSP_RING_LANES_MAX    4096U
#define GSP_RING_GENERATIONS  4U /* files per table in a ring directory: gsp_ring_file_name() */
#define GSP_RING_STRINGS_MAX  (1U << 20)
#define GSP_RING_BYTES_MAX    (1U << 28) /* of all strings of a dictionary */
#define GSP_RING_LANE_HEAD    128U       /* sizeof struct gsp_ring_lane */
#define GSP_RING_STRINGS_HEAD 64U        /* the hash table begins here in the dictionary */
#define GSP_RING_TEXT_MAX     (1U << 30)

/* Status bits: the writer has stopped, or loses data. */
#define GSP_RING_CLOSED       1U  /* the writer closed the ring */
#define GSP_RING_NO_SPACE     2U  /* no space for another lane: rows of its thread are lost */
#define GSP_RING_NO_STRINGS   4U  /* the dictionary is full: new strings are NULL */
#define GSP_RING_NO_FILE      8U  /* cannot open the file for another lane: rows are lost */
#define GSP_RING_SMALL        16U /* keeps fewer rows than requested, because space is short */

struct gsp_ring_head {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint32_t column_count;
    uint32_t columns_off; /* of the first struct gsp_ring_column, bytes */
    uint32_t row_capacity;
    uint32_t lane_max;
    uint64_t lanes_off;
    uint64_t lane_bytes; /* of each lane, a multiple of GSP_RING_ALIGN */
    uint64_t text_off;   /* of the text within a lane; 0 when the table has no text */
    uint64_t text_bytes; /* of each lane's text; 0 or a power of two */
    uint64_t strings_off;
    uint64_t strings_bytes; /* of the whole area */
    int64_t created_ns;     /* CLOCK_REALTIME */
    uint64_t start_time;    /* of the process, clock ticks since boot: /proc/PID/stat field 22 */
    int64_t rank;           /* GSP_NULL_I64 when unknown */
    int32_t pid;
    uint32_t scope; /* enum gsp_scope */
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    char host[GSP_NAME_MAX];
    _Atomic uint32_t lane_count;   /* up to the last allocated lane; all of them have a head */
    _Atomic uint32_t status;       /* GSP_RING_* */
    _Atomic uint64_t rows_lost;    /* no space for a lane */
    _Atomic uint64_t strings_lost; /* dictionary full */
    _Atomic uint64_t rows_no_file; /* lost because the file could not be opened for a lane */
};

struct gsp_ring_column {
    char name[GSP_NAME_MAX];
    uint32_t type;  /* enum gsp_type */
    uint32_t width; /* bytes of one value */
    uint64_t off;   /* of the array within a lane */
};

/* At the start of each lane. `owner` is in another cache line than `rows`. */
struct gsp_ring_lane {
    _Atomic uint64_t rows;      /* number of published rows */
    _Atomic uint64_t text_head; /* bytes of text so far; stored before the bytes themselves */
    char pad1[48];
    _Atomic uint32_t owner; /* kernel thread id of the writer; 0: free for another thread */
    char pad2[60];
};

/* The dictionary: this head (GSP_RING_STRINGS_HEAD bytes), then a hash table of slot_count 64-bit
 * words (hash in the upper half, id in the lower), then string_max 64-bit entries that locate each
 * string, then the bytes of the strings. The first GSP_RING_BYTES_FIRST bytes are unused, so that
 * the entry of a string is never 0. Id n is entry n - 1; id 0 is NULL.
 * The writer writes the bytes of a string first, then its entry, then its slot. */
#define GSP_RING_BYTES_FIRST 8U

struct gsp_ring_strings {
    _Atomic uint32_t count; /* ids assigned; an entry of 0 is not yet (or never) written */
    uint32_t string_max;
    uint32_t slot_count; /* power of two */
    uint32_t pad;
    _Atomic uint64_t bytes_used;
    uint64_t bytes_max;
};

/* Locates a string or a text: 40 bits of position, 24 bits of length. The position of a text is the
 * value of text_head before it was added, modulo 2^40. */
#define GSP_RING_POS_MASK    ((UINT64_C(1) << 40) - 1)
#define GSP_RING_REF_LEN_MAX ((1U << 24) - 2)

static inline uint64_t gsp_ring_ref(uint64_t pos, uint32_t len)
{
    return (pos << 24) | len;
}

static inline uint64_t gsp_ring_ref_pos(uint64_t ref)
{
    return ref >> 24;
}

static inline uint32_t gsp_ring_ref_len(uint64_t ref)
{
    return (uint32_t)(ref & ((1U << 24) - 1));
}

/* "python.span.ring". If a process closes a ring and creates the same table again, the new file is
 * "python.span.1.ring", and so on. */
static inline void gsp_ring_file_name(const char *schema, const char *table, unsigned life,
                                      char *out, size_t cap)
{
    if (life == 0)
        snprintf(out, cap, "%s.%s.ring", schema, table);
    else
        snprintf(out, cap, "%s.%s.%u.ring", schema, table, life);
}

_Static_assert(sizeof(struct gsp_ring_lane) == GSP_RING_LANE_HEAD, "layout of a lane");
_Static_assert(sizeof(struct gsp_ring_head) <= GSP_RING_ALIGN, "layout of the head");
