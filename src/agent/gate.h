/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h -- tracks which threads are using the rings, so that none is unmapped while in use.
 *
 * Each thread has a word with its nesting depth inside the gate and the number of times it has
 * left. Entering is a plain store. A thread that wants to unmap the rings sets their pointers to
 * NULL, issues a membarrier() for all threads, and waits until each thread is outside or has been
 * outside.
 *
 * Threads: any.
 * Signal-safe: yes, except for the first use in a thread.
 * Allocates: at most once for each thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* Low byte: nesting depth, because a signal handler may enter while its thread is inside. The rest:
 * the number of times the thread has left. */
#define GSP_AGENT__DEPTH 0xffU

struct gsp_agent__gate {
    _Atomic uint64_t word;
    _Atomic uint32_t owner; /* thread; 0: free */
    char pad[52];           /* fills a cache line */
};

/* In the static TLS block, so that access never allocates. */
extern _Thread_local struct gsp_agent__gate *gsp_agent__my_gate
    __attribute__((tls_model("initial-exec")));

/* Claims a gate for this thread. Returns NULL if none is free. */
struct gsp_agent__gate *gsp_agent__gate_claim(void);

/* Threads without a gate share one atomic counter (the crowd). It is slower, but loses no rows. */
void gsp_agent__crowd_enter(void);
void gsp_agent__crowd_leave(void);

/* State between gsp_agent__gate_enter() and gsp_agent__gate_leave(). */
struct gsp_agent__gate_pass {
    struct gsp_agent__gate *gate; /* NULL: counted in the crowd */
    uint64_t word;                /* value before entering */
};

static inline struct gsp_agent__gate_pass gsp_agent__gate_enter(void)
{
    struct gsp_agent__gate *gate = gsp_agent__my_gate;
    if (gsp_unlikely(!gate)) {
        gate = gsp_agent__gate_claim();
        if (!gate) {
            gsp_agent__crowd_enter();
            return (struct gsp_agent__gate_pass){NULL, 0};
        }
    }
    const uint64_t word = atomic_load_explicit(&gate->word, memory_order_relaxed);
    atomic_store_explicit(&gate->word, word + 1, memory_order_relaxed);
    /* A compiler fence only; membarrier() in gate_wait() orders the CPUs. */
    atomic_signal_fence(memory_order_seq_cst);
    return (struct gsp_agent__gate_pass){gate, word};
}

/* A signal handler that ran meanwhile has restored the word. */
static inline void gsp_agent__gate_leave(struct gsp_agent__gate_pass stay)
{
    if (gsp_unlikely(!stay.gate)) {
        gsp_agent__crowd_leave();
        return;
    }
    const uint64_t left = (stay.word & GSP_AGENT__DEPTH) == 0 ? GSP_AGENT__DEPTH + 1 : 0;
    /* Partner: the load in gate_wait(). */
    atomic_store_explicit(&stay.gate->word, stay.word + left, memory_order_release);
}

/* Waits until every thread has been outside since the call. Returns false on failure or timeout;
 * then nothing may be unmapped. */
bool gsp_agent__gate_wait(void);
/* Whether this thread is inside more than once: in a signal handler. */
bool gsp_agent__gate_is_nested(void);
/* Call in a child after fork: removes the other threads. */
void gsp_agent__gate_reset(void);
