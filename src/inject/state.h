/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h -- what a thread is doing, and whether a function can be called in it now.
 *
 * A thread that holds a lock of the C library (malloc, the dynamic linker) would wait for itself
 * in dlopen().  So only two states count as safe: waiting in a system call that is made without
 * such locks, and running where no such lock can be held.
 *
 * Reads:   the text of /proc/<pid>/task/<tid>/syscall, the memory map.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "proc/maps.h"

/* In the order of choice: the lower the better. */
enum gsp_inject_state {
    GSP_INJECT_RESTARTS,   /* waits; the kernel goes on with the call after a stop */
    GSP_INJECT_RUNS,       /* its place decides */
    GSP_INJECT_INTERRUPTS, /* waits; a stop ends the call with EINTR */
    GSP_INJECT_UNSAFE,     /* waits for what may be a lock, or nobody knows what for */
};

struct gsp_inject_call_at {
    long number;      /* of the system call; -1: none */
    uint64_t args[6]; /* its arguments */
    uint64_t sp;
    uint64_t pc; /* the instruction after the one that entered the kernel */
};

/* at is filled when the thread waits. */
enum gsp_inject_state gsp_inject_state_of(struct gsp_sv text, struct gsp_inject_call_at *at);

/* Whether a call can be done again as it was after EINTR: it waits without a limit of time. */
bool gsp_inject_is_endless(const struct gsp_inject_call_at *at);
/* Whether it sleeps for a span of time, which aarch64 would begin anew. */
bool gsp_inject_is_span(const struct gsp_inject_call_at *at);

/* Whether a mapping is the dynamic linker's, which makes system calls with its locks held. */
bool gsp_inject_is_linker(const struct gsp_map *map);
/* Whether code of this mapping never runs with a lock of the C library held: a file that is
 * neither the C library, the linker, an unwinder, nor a known allocator. */
bool gsp_inject_is_plain_text(const struct gsp_map *map);

/* Bytes of stack below sp in its mapping; SIZE_MAX for the stack that grows by itself. */
size_t gsp_inject_room(const struct gsp_maps *maps, uint64_t sp);
