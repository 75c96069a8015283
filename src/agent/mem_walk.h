/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_walk.h -- the Python stack of this very thread, as a node of the file of counters.
 *
 * A thread's own frames do not move while it is in an allocator, so the walk needs no lock of the
 * interpreter.  It calls three of its functions, which take no lock either: one for the pointer to
 * the thread's state, one that says whether the thread is attached (free-threaded builds), one that
 * says whether the interpreter is being finalized.  A thread without
 * the GIL would read a state that finalization has freed: gsp_agent_memory_python_ends() comes
 * before that and ends all walks.
 *
 * Used by: mem_count.c.
 * Threads: the caller holds the engine's lock.
 * Allocates: never.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/memory.h"

/* What a thread's last walk saw, outermost frame first: most stacks differ from the one before in
 * their innermost frames alone. */
struct gsp_agent__walk {
    _Atomic uint32_t owner; /* thread; 0: free */
    uint32_t generation;    /* of the tables that the nodes are in */
    uint32_t depth;
    uint32_t root; /* node of the thread */
    struct gsp_agent__walked {
        uintptr_t frame;
        uintptr_t code;
        uint64_t instr;
        uint32_t node;
    } at[GSP_MEMORY_DEPTH_MAX];
};

void gsp_agent__walk_init(const struct gsp_agent_python *python);
/* The innermost node of this thread's Python stack below the node `root`; root itself when it runs
 * no Python.  last is the thread's own, or NULL.  *loss gets what was lost, else
 * GSP_MEMORY_LOSSES. */
uint32_t gsp_agent__walk(uint32_t root, struct gsp_agent__walk *last, enum gsp_memory_loss *loss);
