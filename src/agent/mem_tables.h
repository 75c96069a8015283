/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_tables.h -- strings, frames, stacks and sites of the file of counters, and how they are found
 * again.
 *
 * The things themselves are in shared memory, the indexes are the process's own.
 *
 * Used by: mem_walk.c, mem_count.c.
 * Threads: the caller holds the engine's lock.
 * Allocates: once, by mmap().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/memory.h"

/* By what a frame is known again: where its code is, and that it is still the same code. */
struct gsp_agent__frame_key {
    uintptr_t code;
    uint64_t instr;
    uintptr_t name;
    uintptr_t file;
    uintptr_t table;
    uint64_t mark; /* of the file's name: an address may be another string's by now */
};

/* The most that a file has room for, of either mode. */
extern const struct gsp_memory_room gsp_agent__mem_room[GSP_MEMORY_MODES];

/* The frame that marks a cut, and the node of stacks of which only the innermost frame is kept:
 * both are always there.  The last part of the room is theirs. */
#define GSP_AGENT__CUT_FRAME 1U
#define GSP_AGENT__SHORT     1U

/* The indexes, empty; head is where the counters are, made by gsp_memory_init(). */
bool gsp_agent__tables_init(struct gsp_memory_head *head);

/* Numbers of what is there or was added; 0 when there is no room. */
uint32_t gsp_agent__text_put(struct gsp_sv text);
uint32_t gsp_agent__frame_find(const struct gsp_agent__frame_key *key);
/* Whether it is a function of gsprof. */
bool gsp_agent__frame_is_own(uint32_t frame);
uint32_t gsp_agent__frame_put(const struct gsp_agent__frame_key *key,
                              const struct gsp_memory_frame *frame);
/* Whether there is no room for new frames: then they need not be decoded either. */
bool gsp_agent__frames_full(void);
uint32_t gsp_agent__node_put(uint32_t parent, uint32_t frame);
/* The stack of the node's innermost frame alone; with its library, if that is a frame. */
uint32_t gsp_agent__node_short(uint32_t node);
/* Without room it is the allocator's site without a stack, which is always there; *is_full says
 * so. */
uint32_t gsp_agent__site_put(uint32_t node, uint32_t allocator, bool *is_full);
struct gsp_memory_site *gsp_agent__site_at(uint32_t site);
