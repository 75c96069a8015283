/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_walk.h -- walks the Python stack of the current thread and returns it as a node of the file
 * of counters.
 *
 * The frames of a thread do not change while it is in an allocator, so the walk does not need the
 * GIL. It calls three functions of the interpreter, which do not take a lock either: they return
 * the thread state, whether the thread is attached (free-threaded builds), and whether the
 * interpreter is being finalized. A thread without the GIL could read a thread state that
 * finalization has freed; gsp_agent_memory_python_ends() is called before that and ends all walks.
 *
 * Threads: the caller holds the engine's lock.
 * Allocates: never.
 */
#pragma once

#include <stdint.h>

#include "agent/memory.h"

/* The frames of a thread's last walk, outermost first. Most stacks differ from the previous one
 * only in their innermost frames. */
struct gsp_agent__walk {
    _Atomic uint32_t owner; /* thread; 0: free */
    uint32_t generation;    /* of the tables that the nodes are in */
    uint32_t depth;
    uint32_t root; /* node of the thread */
    struct gsp_agent__walk_frame {
        uintptr_t frame;
        uintptr_t code;
        uint64_t instr;
        uint32_t node;
    } at[GSP_MEMORY_DEPTH_MAX];
};

void gsp_agent__walk_init(const struct gsp_agent_python *python);
/* Returns the innermost node of this thread's Python stack below the node `root`; root itself if
 * the thread runs no Python code. `last` belongs to the thread, or is NULL. *loss is the kind of
 * loss, or GSP_MEMORY_LOSSES if nothing was lost. */
uint32_t gsp_agent__walk(uint32_t root, struct gsp_agent__walk *last, enum gsp_memory_loss *loss);
