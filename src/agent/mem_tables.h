/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_tables.h -- the strings, frames, stacks and sites in the file of counters, and their indexes.
 *
 * The entries are in shared memory; the indexes are in private memory.
 *
 * Threads: the caller holds the engine's lock.
 * Allocates: once, with mmap().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/memory.h"

/* Identifies a frame: the address of its code, and members that detect other code at that address.
 */
struct gsp_agent__frame_key {
    uintptr_t code;
    uint64_t instr;
    uintptr_t name;
    uintptr_t file;
    uintptr_t table;
    uint64_t mark; /* of the file name, because another string may reuse its address */
};

/* The capacity of a file, for each mode. */
extern const struct gsp_memory_capacity gsp_agent__mem_capacity[GSP_MEMORY_MODES];

/* The frame that marks a cut, and the root node of short stacks, of which only the innermost frame
 * is kept. Both always exist. The last part of the capacity is reserved for short stacks. */
#define GSP_AGENT__CUT_FRAME 1U
#define GSP_AGENT__SHORT     1U

/* Empties the indexes. gsp_wire_memory_init() has initialized head. */
bool gsp_agent__tables_init(struct gsp_memory_head *head);

/* Return the number of an existing or new entry; 0 if the table is full. */
uint32_t gsp_agent__text_put(struct gsp_sv text);
uint32_t gsp_agent__frame_find(const struct gsp_agent__frame_key *key);
/* Whether it is a function of gsprof. */
bool gsp_agent__frame_is_own(uint32_t frame);
uint32_t gsp_agent__frame_put(const struct gsp_agent__frame_key *key,
                              const struct gsp_memory_frame *frame);
/* Whether the table of frames is full, so that new frames need not be decoded. */
bool gsp_agent__frames_full(void);
uint32_t gsp_agent__node_put(uint32_t parent, uint32_t frame);
/* Returns the short stack for a node: its innermost frame, and the library if that is a frame. */
uint32_t gsp_agent__node_short(uint32_t node);
/* If the table is full, sets *is_full and returns the allocator's site without a stack, which
 * always exists. */
uint32_t gsp_agent__site_put(uint32_t node, uint32_t allocator, bool *is_full);
struct gsp_memory_site *gsp_agent__site_at(uint32_t site);
