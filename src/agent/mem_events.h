/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_events.h -- a ring buffer of individual large allocations and frees. memory.h declares the
 * functions for readers.
 *
 * Threads: the caller holds the engine's lock.
 * Allocates: once, with mmap().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Records an allocation or, if bytes is negative, a free. */
void gsp_agent__mem_event(const void *block, int64_t bytes);
/* Smallest size that is recorded; SIZE_MAX: off. */
extern size_t gsp_agent__mem_events_from;
