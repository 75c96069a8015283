/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h -- copies and checks the memory counters of a process by call site.
 *
 * Reads:   the file `memory` (wire/memory.h) in the ring directory of a process, also of one that
 *          has ended. Another process writes it, so nothing in it is trusted.
 * Gives:   frames, nodes and sites in arrays; sites with their present counts.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "wire/memory.h"

/* The counts of a site. */
struct gsp_memlog_count {
    uint64_t alloc_bytes; /* since the start of the engine */
    uint64_t alloc_count;
    uint64_t free_bytes; /* never more than alloc_bytes */
    uint64_t free_count;
    uint64_t peak_bytes; /* live bytes of the site at the peak of the process */
    uint64_t peak_count;
    uint64_t live_var; /* variance of the live bytes, KiB^2; 0: exact */
};

static inline uint64_t gsp_memlog_count_live(const struct gsp_memlog_count *count)
{
    return count->alloc_bytes - count->free_bytes;
}

struct gsp_memlog_site_counts {
    uint32_t node;
    uint32_t allocator;
    struct gsp_memlog_count count;
};

struct gsp_memlog_table_facts {
    enum gsp_memory_mode mode;
    bool ended;   /* the engine was stopped */
    bool leaving; /* the interpreter was shutting down, at the latest just after the copy */
    int32_t pid;
    uint64_t interval_bytes;
    int64_t began_ns; /* CLOCK_MONOTONIC */
    uint64_t live_bytes;
    uint64_t peak_bytes;
    int64_t peak_ns;                                /* CLOCK_MONOTONIC; 0: none yet */
    uint64_t allocator_live[GSP_MEMORY_ALLOCATORS]; /* bytes */
    uint64_t alloc_bytes;                           /* of all allocators */
    uint64_t alloc_count;
    int64_t device_allocated_bytes; /* -1: unknown */
    int64_t device_reserved_bytes;
    uint64_t lost[GSP_MEMORY_LOSSES];
};

struct gsp_memlog_table; /* opaque */

/* Fails with NOFILE (the engine was never on in this process), FORMAT, PERM, NOMEM, IO. */
GSP_MUST_CHECK int gsp_memlog_table_open(int folder_fd, struct gsp_memlog_table **out,
                                         struct gsp_err *err);
void gsp_memlog_table_close(struct gsp_memlog_table *table); /* NULL does nothing */

/* Locks the counters for one recorder, until the table is closed. Returns false if another recorder
 * holds the lock. */
bool gsp_memlog_table_claim(const struct gsp_memlog_table *table);
/* Whether the file was replaced or removed, that is, the engine was restarted. */
bool gsp_memlog_table_is_replaced(const struct gsp_memlog_table *table, int folder_fd);

/* Copies the present counters. Fails with FORMAT (also if the file was truncated) or NOMEM; then
 * the last copy stays. */
GSP_MUST_CHECK int gsp_memlog_table_copy(struct gsp_memlog_table *table, struct gsp_err *err);

/* Data of the last copy; borrowed until the next copy. */
const struct gsp_memlog_table_facts *gsp_memlog_table_facts(const struct gsp_memlog_table *table);
size_t gsp_memlog_table_site_count(const struct gsp_memlog_table *table);
const struct gsp_memlog_site_counts *gsp_memlog_table_site(const struct gsp_memlog_table *table,
                                                           size_t i);

/* Maps the nodes of a table to stacks of a profile. Kept from one copy to the next. */
struct gsp_memlog_stacks {
    uint32_t process; /* index in the profile */
    uint32_t *stacks; /* by node: the stack, without the thread */
    size_t stack_cap;
    uint32_t *threads; /* by node: index of the thread */
    size_t thread_cap;
    size_t count;
    uint32_t no_thread; /* index for stacks without a thread; GSP_NO_INDEX: not created yet */
};

#define GSP_MEMSTACKS_NONE ((struct gsp_memlog_stacks){.no_thread = GSP_NO_INDEX})

/* Adds the new nodes of the last copy to the profile.
 * Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_memlog_stacks_grow(struct gsp_memlog_stacks *stacks,
                                          const struct gsp_memlog_table *table,
                                          struct gsp_profile *profile, struct gsp_err *err);
void gsp_memlog_stacks_free(struct gsp_memlog_stacks *stacks);
/* Returns the stack and the thread of a node; for an unknown node, no stack and no_thread. */
void gsp_memlog_stacks_at(const struct gsp_memlog_stacks *stacks, uint32_t node, uint32_t *thread,
                          uint32_t *stack);
