/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_count.h -- counts allocations and frees: weight of the sample, site, peak.
 *
 * Threads: any. One lock protects the state. It is held for tens of nanoseconds, and never during a
 *          call of an allocator.
 * Signal-safe: `busy` rejects a handler that interrupts the engine in its thread.
 * Allocates: with mmap(), when tables grow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/mem_live.h"
#include "agent/memory.h"

/* A distance to the next sample that is never reached. */
#define GSP_AGENT__FAR    (INT64_C(1) << 60)

/* An allocator runs below a hook that counts, so its own allocations are not counted again. */
#define GSP_AGENT__BELOW  1U
/* The engine runs, so only a signal handler can enter a hook. */
#define GSP_AGENT__INSIDE 2U

/* State of a thread. */
struct gsp_agent__mem_thread {
    int64_t left;        /* bytes until the next sample */
    uint64_t random;     /* 0: not initialized */
    uint32_t busy;       /* GSP_AGENT__BELOW, _INSIDE */
    uint32_t paused;     /* above 0: allocations of gsprof itself, not counted */
    uint32_t root;       /* node of the thread */
    uint32_t generation; /* of the tables that root belongs to */
    struct gsp_agent__walk *walk;
};

/* In the static TLS block, so that access never allocates. */
extern _Thread_local struct gsp_agent__mem_thread gsp_agent__mem_this_thread
    __attribute__((tls_model("initial-exec")));

/* enum gsp_memory_mode. */
extern _Atomic uint32_t gsp_agent__mem_mode;

/* Resets everything, with counters at `head`. Call gsp_agent__mem_count_on() last. */
bool gsp_agent__mem_count_init(struct gsp_memory_head *head,
                               const struct gsp_agent_memory_opts *opts);
void gsp_agent__mem_count_on(enum gsp_memory_mode mode);
/* Call in a child after fork: releases the lock. */
void gsp_agent__mem_count_reset(void);

/* In sampled mode, when the thread's `left` is used up: whether to count an allocation of this
 * size. Draws the next distance. Not below a hook. */
bool gsp_agent__mem_is_due(struct gsp_agent__mem_thread *me, size_t bytes);

/* Counts an allocated block. caller: return address in the calling library, or NULL for Python's
 * allocators. The thread is busy. */
void gsp_agent__mem_count_alloc(const void *block, size_t bytes,
                                enum gsp_memory_allocator allocator, const void *caller);
/* Counts a block that is about to be freed. */
void gsp_agent__mem_count_free(const void *block);
/* Stops tracking a block that is about to be moved or freed, and returns its data. Returns false if
 * it is not tracked. */
bool gsp_agent__mem_untrack(const void *block, struct gsp_agent__block *out);
/* After gsp_agent__mem_untrack(): the block was freed. */
void gsp_agent__mem_confirm_free(const struct gsp_agent__block *block);
/* After gsp_agent__mem_untrack(): the block was not freed. Tracks it again. */
void gsp_agent__mem_track_again(const struct gsp_agent__block *block);
/* After gsp_agent__mem_untrack(): only its first bytes were freed. In exact mode, keeps tracking
 * the rest with the same site. */
void gsp_agent__mem_confirm_partial_free(const struct gsp_agent__block *block, size_t bytes);
/* Counts the loss when a signal handler enters a hook while its thread is inside the engine. */
void gsp_agent__mem_count_nested(void);
/* Returns the node of this thread's stack; 0: none. The thread is busy. */
uint32_t gsp_agent__mem_node(void);

/* The lock of the engine. While it is held, only functions of this folder's tables are called. */
void gsp_agent__mem_lock(void);
void gsp_agent__mem_unlock(void);
/* Waits before the n-th retry: spins, then yields, then sleeps. Not a cancellation point, because
 * malloc() is not one either. */
void gsp_agent__mem_wait(int tries);
