/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h -- memory that is freed all at once.
 *
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>

struct gsp_arena {
    struct gsp_arena_chunk *chunks;
    size_t bytes; /* in all chunks */
};

/* Returns zeroed bytes, aligned to 16, or NULL if memory runs out. */
void *gsp_sample__arena_alloc(struct gsp_arena *arena, size_t len);
void gsp_sample__arena_free(struct gsp_arena *arena); /* {0} does nothing */
