/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h -- who is among the rings at this moment, so that they are not unmapped under anybody.
 *
 * Each thread has a word of its own that says how deep it is inside and how often it has left.
 * Coming in is a plain store: who wants to unmap makes the pointers NULL, has the kernel order the
 * memory of all threads (membarrier), and waits until each is outside or has been.
 *
 * Used by: agent.c.
 * Threads: all.
 * Signal-safe: yes, but for the first time of a thread.
 * Allocates: once for each thread, at most.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* Low byte: how deep; a signal handler may come in while its thread is inside.  The rest: how often
 * the thread came to be outside. */
#define GSP_AGENT__DEPTH 0xffU

struct gsp_agent__gate {
    _Atomic uint64_t word;
    _Atomic uint32_t owner; /* thread; 0: free */
    char pad[52];           /* a cache line each */
};

/* In the static block, so that access calls no allocator. */
extern _Thread_local struct gsp_agent__gate *gsp_agent__my_gate
    __attribute__((tls_model("initial-exec")));

/* The thread's word, claimed; NULL when there are none left. */
struct gsp_agent__gate *gsp_agent__gate_claim(void);

/* Threads without a word of their own share one, by exchanges: slower, and no row is lost. */
void gsp_agent__crowd_in(void);
void gsp_agent__crowd_out(void);

/* One stay inside. */
struct gsp_agent__stay {
    struct gsp_agent__gate *gate; /* NULL: among the crowd */
    uint64_t word;                /* as it was outside */
};

static inline struct gsp_agent__stay gsp_agent__gate_in(void)
{
    struct gsp_agent__gate *gate = gsp_agent__my_gate;
    if (gsp_unlikely(!gate)) {
        gate = gsp_agent__gate_claim();
        if (!gate) {
            gsp_agent__crowd_in();
            return (struct gsp_agent__stay){NULL, 0};
        }
    }
    const uint64_t word = atomic_load_explicit(&gate->word, memory_order_relaxed);
    atomic_store_explicit(&gate->word, word + 1, memory_order_relaxed);
    /* To the machine this is no fence: its part is done by membarrier() in gate_wait(). */
    atomic_signal_fence(memory_order_seq_cst);
    return (struct gsp_agent__stay){gate, word};
}

/* A handler that came meanwhile has left the word as it was. */
static inline void gsp_agent__gate_out(struct gsp_agent__stay stay)
{
    if (gsp_unlikely(!stay.gate)) {
        gsp_agent__crowd_out();
        return;
    }
    const uint64_t left = (stay.word & GSP_AGENT__DEPTH) == 0 ? GSP_AGENT__DEPTH + 1 : 0;
    /* Partner: the load in gate_wait(). */
    atomic_store_explicit(&stay.gate->word, stay.word + left, memory_order_release);
}

/* Waits until everybody has been outside since the call; false when that does not come about, and
 * nothing may be unmapped. */
bool gsp_agent__gate_wait(void);
/* Whether this thread is inside more than once: below a signal handler. */
bool gsp_agent__gate_is_nested(void);
/* In a child after fork: the other threads are not there. */
void gsp_agent__gate_forget(void);
