/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h -- the state of a thread, and whether a function can be called in it now.
 *
 * A thread that holds a lock of the C library (malloc, the dynamic linker) would deadlock in
 * dlopen(). So only two states are safe: waiting in a system call that is made without such locks,
 * and running code that cannot hold such a lock.
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
#include "proc/mem.h"

/* In order of preference, best first. */
enum gsp_inject_state {
    GSP_INJECT_RESTARTS,   /* waits; the kernel restarts the call after a stop */
    GSP_INJECT_RUNS,       /* runs; depends on its program counter */
    GSP_INJECT_INTERRUPTS, /* waits; a stop ends the call with EINTR */
    GSP_INJECT_SHORTENS,   /* waits; a stop may end the call with a part of the data */
    GSP_INJECT_UNSAFE,     /* waits for a possible lock, or for something unknown */
};

struct gsp_inject_call_at {
    long number;      /* of the system call; -1: none */
    uint64_t args[6]; /* its arguments */
    uint64_t sp;
    uint64_t pc; /* the instruction behind the system call */
};

/* Fills *at if the thread waits. */
enum gsp_inject_state gsp_inject__state_parse(struct gsp_sv text, struct gsp_inject_call_at *at);

/* Returns whether a call that a stop has ended with EINTR can be repeated. */
bool gsp_inject__call_can_repeat(const struct gsp_inject_call_at *at);
/* Returns whether the call sleeps for a relative time, which aarch64 would restart from the
 * beginning. */
bool gsp_inject__call_is_relative_sleep(const struct gsp_inject_call_at *at);

/* Returns whether the call waits for a condition variable, where the limit is a point in time. */
bool gsp_inject__call_waits_until(const struct gsp_inject_call_at *at);

/* Returns whether a mapping is the dynamic linker, which makes system calls with its locks held. */
bool gsp_inject__map_is_linker(const struct gsp_map *map);
/* Returns whether code of this mapping never runs with a lock of the C library held, as far as its
 * name tells: a file other than the C library, the linker, an unwinder, or a known allocator. */
bool gsp_inject__map_is_lock_free(const struct gsp_map *map);

/* Returns whether a word is on the part of the stack above sp that belongs to the last calls. */
bool gsp_inject__stack_holds(const struct gsp_maps *maps, struct gsp_mem *mem, uint64_t sp,
                             uint64_t word);

/* Free bytes below sp on the stack that the C library gave to the thread; SIZE_MAX for the stack
 * that grows automatically; 0 if sp is elsewhere, for example on the stack of a coroutine. */
size_t gsp_inject__stack_room(const struct gsp_maps *maps, struct gsp_mem *mem, uint64_t sp,
                              uint64_t thread_pointer);
