/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_events.h -- great allocations and frees one by one, the newest of them.
 *
 * Used by: mem_count.c, which tells them; memory.h has what readers call.
 * Threads: with the engine's lock held.
 * Allocates: by mmap(), once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A block of so many bytes was given out, or (below 0) given back. */
void gsp_agent__mem_event(const void *block, int64_t bytes);
/* From how many bytes on; SIZE_MAX: none are kept. */
extern size_t gsp_agent__mem_events_from;
