/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h -- appends rows to a table's ring.
 *
 * Each thread writes to a lane of its own: an append is a few stores and no system call.
 * The bytes of a lane are reserved when its thread comes first (fallocate: a full file system
 * is an error here, not a SIGBUS later), and the lane goes to another thread when its own ends.
 *
 * Used by: the agent, collectors, tests.
 * Threads: all, at once.  After fork the child calls gsp_ring_abandon() and makes its own; until
 *          then gsp_ring_lane() gives it none.  A struct gsp_lane kept across fork is not safe.
 * Signal-safe: appends and gsp_ring_intern() are, also when they interrupt an append of the
 *          same thread (they take another lane, or count the row as lost).
 * Allocates: at start, and once for each lane.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/ring.h"

struct gsp_ring; /* opaque */

struct gsp_ring_spec {
    const struct gsp_table *table; /* kept: must outlive the ring */
    uint32_t row_capacity;         /* rows that each lane keeps; 0: GSP_RING_ROWS_DEFAULT */
    uint32_t lane_max;             /* 0: 1,024 */
    uint32_t string_max;           /* 0: 16,384 */
    uint32_t string_bytes;         /* 0: 1 MB */
    uint32_t text_bytes;           /* of each lane, rounded up to a power of two; 0: 1 MB */
    int32_t pid;                   /* 0: this process */
    uint64_t start_time;           /* 0: found out from /proc */
    int64_t rank;                  /* GSP_NULL_I64 when unknown */
    const char *host;              /* copied; NULL: found out */
    bool keeps_old;                /* what an earlier life of the process wrote stays beside it */
    bool keeps_size;               /* fails with NOWRITE where others are made smaller */
    bool is_small;                 /* the caller has asked for less than usual, for want of room */
};

/* A thread's place to write; what the inline appends of ring/append.h need. */
struct gsp_lane {
    struct gsp_ring_lane *head;
    const struct gsp_table *table;
    char *text;         /* NULL when the table has none */
    uint64_t text_mask; /* text_bytes - 1 */
    uint64_t text_head; /* this writer's copy of head->text_head */
    uint64_t rows;      /* this writer's copy of head->rows */
    uint32_t slot;      /* rows % capacity */
    uint32_t capacity;
    volatile uint32_t busy; /* 1 during an append: a signal handler of this thread looks */
    _Atomic uint32_t owner; /* thread that writes here; 0: free.  The file's copy is for readers */
    void *column[GSP_COLUMNS_MAX];
};

/* Makes <schema>.<table>.ring in the folder, complete or not at all.  One that this process has
 * made before and does not write any more (closed, or from before exec) is replaced; or, if old
 * ones are kept, the new one is called <schema>.<table>.1.ring and so on, and the oldest of
 * GSP_RING_LIVES is replaced.  Where there is little room it has fewer rows and strings than the
 * spec says (GSP_RING_SMALL), at least some hundreds.
 * Fails with EXISTS, NOWRITE (also: no space), LIMIT, USAGE (a bad spec), NOMEM. */
GSP_MUST_CHECK int gsp_ring_create(int folder_fd, const struct gsp_ring_spec *spec,
                                   struct gsp_ring **out, struct gsp_err *err);
/* Marks it closed and unmaps it; the file stays.  No thread may append any more. */
void gsp_ring_close(struct gsp_ring *ring); /* NULL does nothing */
/* In a child after fork: forgets the parent's ring without touching its bytes. */
void gsp_ring_abandon(struct gsp_ring *ring); /* NULL does nothing */

/* Says the rank of the process when it becomes known later than the ring. */
void gsp_ring_set_rank(struct gsp_ring *ring, int64_t rank);
/* Counts rows that were lost before they came to the ring; nothing in a child after fork. */
void gsp_ring_lose(struct gsp_ring *ring, uint64_t rows);

/* This thread's lane, claimed on first use and kept until the thread ends.  A signal handler
 * that interrupts an append gets another one.  NULL when there is no room (the row is counted as
 * lost) or in a child after fork. */
struct gsp_lane *gsp_ring_lane(struct gsp_ring *ring);

/* The id of a string in the table's dictionary, for a STR column; GSP_NULL_STR when there is no
 * room.  Equal strings that two threads bring at once may get two ids: readers take them for
 * one.  Longer ones are cut at GSP_RING_REF_LEN_MAX. */
uint32_t gsp_ring_intern(struct gsp_ring *ring, struct gsp_sv text);

/* Puts a text into the lane's text ring and gives the word of a TEXT column.  What is longer
 * than a quarter of the ring is cut; p == NULL is NULL.  For ring/append.h. */
uint64_t gsp_lane_text(struct gsp_lane *lane, struct gsp_sv text);

/* Appends one row from its struct (struct gsp_row_...; table->row_bytes bytes), whatever the
 * table.  False when the row was lost (counted).  The inline functions of ring/append.h do the
 * same for a table known at compile time, several times as fast. */
bool gsp_ring_append(struct gsp_ring *ring, const void *row);
