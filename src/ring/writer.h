/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h -- appends rows to a table's ring.
 *
 * Each thread writes to its own lane: an append is a few stores and no system call. The bytes of a
 * lane are reserved at the first append of its thread (fallocate: a full file system is an error
 * here, not a SIGBUS later). When the thread ends, another thread can use the lane.
 *
 * Threads: any. After fork, the child calls gsp_ring_abandon() and creates its own ring; until then
 *          gsp_ring_lane() returns NULL. Do not keep a struct gsp_lane across fork.
 * Signal-safe: appends and gsp_ring_intern(), also if they interrupt an append of the same thread
 *          (they use another lane, or count the row as lost).
 * Allocates: at creation, and once for each lane.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/ring.h"

struct gsp_ring; /* opaque */
struct gsp_ring_guard;

struct gsp_ring_spec {
    const struct gsp_table *table; /* borrowed: must outlive the ring */
    uint32_t row_capacity;         /* rows per lane; 0: GSP_RING_ROWS_DEFAULT */
    uint32_t lane_max;             /* 0: 1,024 */
    uint32_t string_max;           /* 0: 16,384 */
    uint32_t string_bytes;         /* 0: 1 MB */
    uint32_t text_bytes;           /* of each lane, rounded up to a power of two; 0: 1 MB */
    int32_t pid;                   /* 0: this process */
    uint64_t start_time;           /* 0: read from /proc */
    int64_t rank;                  /* GSP_NULL_I64: unknown */
    const char *host;              /* copied; NULL: this host */
    bool keeps_old;                /* keep earlier rings of the same table and process */
    bool keeps_size;               /* fail with NOWRITE instead of reducing the size */
    bool is_small;                 /* the caller has reduced the size, because space is short */
    /* &gsp_ring_guard: survive that the file is truncated; what is written afterwards is lost.
     * Appends are not signal-safe then. NULL: such a program gets SIGBUS. */
    const struct gsp_ring_guard *guard;
};

/* The writer's side of a lane, for the inline functions of ring/append.h. */
struct gsp_lane {
    struct gsp_ring_lane *head;
    const struct gsp_table *table;
    char *text;         /* NULL if the table has no text */
    uint64_t text_mask; /* text_bytes - 1 */
    uint64_t text_head; /* this writer's copy of head->text_head */
    uint64_t rows;      /* this writer's copy of head->rows */
    uint32_t slot;      /* rows % capacity */
    uint32_t capacity;
    volatile uint32_t busy; /* 1 during an append; read by signal handlers of this thread */
    _Atomic uint32_t owner; /* thread that writes here; 0: free. head->owner is for readers */
    void *column[GSP_COLUMNS_MAX];
};

/* Creates <schema>.<table>.ring in the ring directory, complete or not at all. Replaces a ring that
 * this process created before and no longer writes (closed, or created before exec). With
 * keeps_old, names the new one <schema>.<table>.1.ring and so on instead, and replaces the oldest
 * of GSP_RING_GENERATIONS. If space is short, the ring has fewer rows and strings than requested,
 * but at least some hundreds (GSP_RING_SMALL). Fails with EXISTS, NOWRITE (also: no space left),
 * LIMIT, USAGE (an invalid spec) or NOMEM. */
GSP_MUST_CHECK int gsp_ring_create(int folder_fd, const struct gsp_ring_spec *spec,
                                   struct gsp_ring **out, struct gsp_err *err);
/* Marks the ring as closed and unmaps it; the file stays. No thread may append afterwards. */
void gsp_ring_close(struct gsp_ring *ring); /* NULL does nothing */
/* In a child after fork: unmaps the parent's ring without changing it. */
void gsp_ring_abandon(struct gsp_ring *ring); /* NULL does nothing */

/* Sets the rank of the process, if it becomes known after the ring was created. */
void gsp_ring_set_rank(struct gsp_ring *ring, int64_t rank);
/* Counts rows that were lost before they reached the ring. Does nothing in a child after fork. */
void gsp_ring_rows_count_lost(struct gsp_ring *ring, uint64_t rows);

/* Returns the lane of this thread, which it claims at the first call and keeps until it ends. A
 * signal handler that interrupts an append gets another lane. Returns NULL if no space is left (and
 * counts the row as lost), and in a child after fork. */
struct gsp_lane *gsp_ring_lane(struct gsp_ring *ring);

/* Returns the id of a string in the table's dictionary, for a STR column; GSP_NULL_STR if the
 * dictionary is full. If two threads add the same string at the same time, it may get two ids,
 * which readers treat as equal. Truncates strings to GSP_RING_REF_LEN_MAX. */
uint32_t gsp_ring_intern(struct gsp_ring *ring, struct gsp_sv text);

/* Adds a text to the lane's text ring and returns the value for a TEXT column. Truncates it to a
 * quarter of the text ring. text.p == NULL stands for NULL. For ring/append.h. */
uint64_t gsp_ring__lane_text(struct gsp_lane *lane, struct gsp_sv text);

/* Appends one row of any table from its struct (struct gsp_row_...; table->row_bytes bytes).
 * Returns false if the row was lost, and counts it. The inline functions of ring/append.h are
 * several times faster for a table known at compile time. */
bool gsp_ring_append(struct gsp_ring *ring, const void *row);
