/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/arena.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 16384U

struct gsp_arena_chunk {
    struct gsp_arena_chunk *next;
    size_t used;
    size_t cap;
    _Alignas(16) char bytes[];
};

void *gsp_sample__arena_alloc(struct gsp_arena *arena, size_t len)
{
    len = (len + 15) & ~(size_t)15;
    struct gsp_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->cap - chunk->used < len) {
        size_t cap = len > CHUNK_BYTES ? len : CHUNK_BYTES;
        chunk = malloc(sizeof(*chunk) + cap);
        if (!chunk)
            return NULL;
        chunk->next = arena->chunks;
        chunk->used = 0;
        chunk->cap = cap;
        arena->chunks = chunk;
        arena->bytes += cap;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += len;
    memset(p, 0, len);
    return p;
}

void gsp_sample__arena_free(struct gsp_arena *arena)
{
    while (arena->chunks) {
        struct gsp_arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->bytes = 0;
}
