/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_count.h -- one allocation or free more: the sample's weight, its site, the peak.
 *
 * Used by: mem_hook.c (every hook's slow path), memory.c (start, stop, fork).
 * Threads: all; one lock, held for some tens of nanoseconds and never while an allocator is called.
 * Signal-safe: a handler that comes while its thread is inside is turned away by `busy`.
 * Allocates: by mmap(), when tables grow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/mem_live.h"
#include "agent/memory.h"

/* So much may pass before a thread looks again whether it is counted. */
#define GSP_AGENT__FAR    (INT64_C(1) << 60)

/* The allocator works for a hook that counts: what it asks for itself is not counted again. */
#define GSP_AGENT__BELOW  1U
/* The engine works: only a signal handler comes to a hook then. */
#define GSP_AGENT__INSIDE 2U

/* A thread's own. */
struct gsp_agent__mem_thread {
    int64_t left;        /* bytes until the next sample */
    uint64_t random;     /* 0: the thread has not come yet */
    uint32_t busy;       /* GSP_AGENT__BELOW, _INSIDE */
    uint32_t paused;     /* the package's own work is not counted */
    uint32_t root;       /* node of the thread, of this generation of the tables: */
    uint32_t generation; /* other generations' numbers are void */
    struct gsp_agent__walk *walk;
};

/* In the static block, so that access calls no allocator. */
extern _Thread_local struct gsp_agent__mem_thread gsp_agent__mem_me
    __attribute__((tls_model("initial-exec")));

/* enum gsp_memory_mode. */
extern _Atomic uint32_t gsp_agent__mem_mode;

/* Everything from 0, at these counters; the mode is set last, by gsp_agent__mem_count_on(). */
bool gsp_agent__mem_count_init(struct gsp_memory_head *head,
                               const struct gsp_agent_memory_opts *opts);
void gsp_agent__mem_count_on(enum gsp_memory_mode mode);
/* In a child after fork: nobody holds the lock. */
void gsp_agent__mem_count_forget(void);

/* Whether an allocation of so many bytes is to be counted, in sampled mode, once the thread's
 * `left` has been used up; draws the next distance.  Not below a hook. */
bool gsp_agent__mem_is_due(struct gsp_agent__mem_thread *me, size_t bytes);

/* A block was given out.  caller: who asked, for allocators that are not Python's.  The thread is
 * busy. */
void gsp_agent__mem_took(const void *block, size_t bytes, enum gsp_memory_allocator allocator,
                         const void *caller);
/* A block is about to be given back. */
void gsp_agent__mem_freed(const void *block);
/* A block is about to be moved, or perhaps given back: what is known of it, and it is not followed
 * any more.  False: it was not followed. */
bool gsp_agent__mem_take_out(const void *block, struct gsp_agent__block *out);
/* It was given back.  */
void gsp_agent__mem_gave(const struct gsp_agent__block *block);
/* It was not, after all. */
void gsp_agent__mem_put_back(const struct gsp_agent__block *block);
/* Its first bytes were: in exact mode the rest goes on under the same site. */
void gsp_agent__mem_gave_part(const struct gsp_agent__block *block, size_t bytes);
/* A handler came while its thread was inside. */
void gsp_agent__mem_nested(void);
/* The node of this thread's stack, for a row that shows it; 0: none.  The thread is busy. */
uint32_t gsp_agent__mem_node(void);

/* The one lock; nothing is called while it is held but this folder's tables. */
void gsp_agent__mem_lock(void);
void gsp_agent__mem_unlock(void);
/* The n-th pause of a thread that waits for another: spins, yields, then naps.  No cancellation
 * point: the program's malloc() is none. */
void gsp_agent__mem_wait(int tries);
