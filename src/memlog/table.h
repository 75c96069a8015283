/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h -- a process's counters of memory by call site, copied and checked.
 *
 * Reads:   the file `memory` (wire/memory.h) in the folder of a process's rings, also of one that
 *          has ended.  Its bytes are another process's: nothing in them is believed.
 * Gives:   frames, nodes and sites in arrays; sites with the counts of one moment.
 * Used by: writer.h (recordings), cli/ (top --mem, SQL).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"
#include "wire/memory.h"

/* What a site has counted. */
struct gsp_memcount {
    uint64_t alloc_bytes; /* since the engine was started */
    uint64_t alloc_count;
    uint64_t free_bytes; /* never more than alloc_bytes */
    uint64_t free_count;
    uint64_t peak_bytes; /* live when the process's live bytes were at their peak */
    uint64_t peak_count;
    uint64_t live_var; /* of the live bytes, KiB^2; 0: they are exact */
};

static inline uint64_t gsp_memcount_live(const struct gsp_memcount *count)
{
    return count->alloc_bytes - count->free_bytes;
}

struct gsp_memsite {
    uint32_t node;
    uint32_t allocator;
    struct gsp_memcount count;
};

struct gsp_memtable_facts {
    enum gsp_memory_mode mode;
    bool ended;   /* the engine was stopped in order */
    bool leaving; /* the interpreter was ending, after the counters were copied or before */
    int32_t pid;
    uint64_t interval_bytes;
    int64_t began_ns; /* CLOCK_MONOTONIC */
    uint64_t live_bytes;
    uint64_t peak_bytes;
    int64_t peak_ns;                                /* CLOCK_MONOTONIC; 0: none yet */
    uint64_t allocator_live[GSP_MEMORY_ALLOCATORS]; /* bytes */
    uint64_t alloc_bytes;                           /* of all allocators */
    uint64_t alloc_count;
    int64_t device_allocated_bytes; /* -1: not known */
    int64_t device_reserved_bytes;
    uint64_t lost[GSP_MEMORY_LOSSES];
};

struct gsp_memtable; /* opaque */

/* Fails with NOFILE (the engine was never on in this process), FORMAT, PERM, NOMEM, IO. */
GSP_MUST_CHECK int gsp_memtable_open(int folder_fd, struct gsp_memtable **out, struct gsp_err *err);
void gsp_memtable_close(struct gsp_memtable *table); /* NULL does nothing */

/* Makes this the one recording of the process, until it is closed; false when there is one. */
bool gsp_memtable_claim(const struct gsp_memtable *table);
/* Whether the folder has another file of that name by now, or none: the engine was started anew. */
bool gsp_memtable_is_old(const struct gsp_memtable *table, int folder_fd);

/* Copies what is there now.  Fails with FORMAT (also when the file was cut) and NOMEM; what was
 * copied before stays. */
GSP_MUST_CHECK int gsp_memtable_take(struct gsp_memtable *table, struct gsp_err *err);

/* Of the last copy; borrowed until the next. */
const struct gsp_memtable_facts *gsp_memtable_facts(const struct gsp_memtable *table);
size_t gsp_memtable_site_count(const struct gsp_memtable *table);
const struct gsp_memsite *gsp_memtable_site(const struct gsp_memtable *table, size_t i);

/* Where the stacks of a table are in a profile: kept from one copy to the next. */
struct gsp_memstacks {
    uint32_t process;  /* index in the profile */
    uint32_t *stacks;  /* by node: the stack, without the thread */
    uint32_t *threads; /* by node: index of the thread */
    size_t count;
    uint32_t no_thread; /* of stacks that are of no one thread; GSP_NO_INDEX: not made yet */
};

#define GSP_MEMSTACKS_NONE ((struct gsp_memstacks){.no_thread = GSP_NO_INDEX})

/* Puts the nodes of the last copy that are not there yet into the profile.
 * Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_memstacks_grow(struct gsp_memstacks *stacks,
                                      const struct gsp_memtable *table, struct gsp_profile *profile,
                                      struct gsp_err *err);
void gsp_memstacks_free(struct gsp_memstacks *stacks);
/* The stack of a node and its thread; of a node that is not there, none and no one's. */
void gsp_memstacks_at(const struct gsp_memstacks *stacks, uint32_t node, uint32_t *thread,
                      uint32_t *stack);
