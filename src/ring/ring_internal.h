/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_internal.h -- the writer's side of a ring, shared by writer.c, lanes.c and intern.c.
 *
 * The writer never uses values from the file to decide where to write.
 * Threads: atomic members change while the ring is used; gsp_ring_create() sets the others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "ring/writer.h"

/* Rings that a process can write at the same time. Each thread has an entry for each. */
#define GSP_RINGS_MAX  128U
#define GSP_RING__PATH 512U

struct gsp_ring {
    const struct gsp_table *table;
    struct gsp_ring_head *head; /* mapped up to lanes_off */
    struct gsp_ring_strings *strings;
    _Atomic uint64_t *slots; /* of the dictionary's hash table */
    _Atomic uint64_t *refs;
    char *string_bytes;
    struct gsp_lane *lanes; /* lane_max of them */
    uint64_t serial;        /* numbers all rings that this process ever created, from 1 */
    uint64_t lanes_off;
    uint64_t lane_bytes;
    uint64_t text_off;
    uint64_t text_bytes;
    uint64_t strings_off;
    uint64_t strings_bytes;
    uint64_t string_bytes_max;
    dev_t dev; /* identity of the file, in case another file replaces it at path */
    ino_t ino;
    uint32_t number; /* in the process's list of rings */
    uint32_t slot_count;
    uint32_t string_max;
    uint32_t row_slots;
    uint32_t lane_max;
    pid_t pid;                   /* of the process that created it, also after fork */
    bool is_small;               /* reduced, because space is short */
    _Atomic uint32_t lane_count; /* copy of head->lane_count */
    _Atomic uint32_t lane_top;   /* one past the last lane that a thread ever tried to map */
    uint32_t spare_count;        /* lanes that are mapped in advance, without reserved bytes */
    char *spares;                /* the first of them; NULL: none */
    uint64_t spare_bytes;
    const struct gsp_ring_guard *guard; /* of all mappings; NULL: none */
    _Atomic uintptr_t cut;              /* by the guard */
    uint64_t column_off[GSP_COLUMNS_MAX];
    char path[GSP_RING__PATH]; /* absolute */
};

static inline uint64_t gsp_ring__round_up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

/* Reserves the bytes on the file system. Fails with NOWRITE. */
GSP_MUST_CHECK int gsp_ring__reserve(int fd, uint64_t off, uint64_t len, struct gsp_err *err);

/* Maps a part of the ring's file, with the ring's guard. Returns MAP_FAILED if that fails. */
void *gsp_ring__map(struct gsp_ring *ring, int fd, uint64_t off, uint64_t len, int access);
void gsp_ring__unmap(const struct gsp_ring *ring, void *start, uint64_t len);

/* Adds the ring to the list by which ending threads find their lanes. Fails with LIMIT.
 * gsp_ring__leave() waits for threads that are ending. */
GSP_MUST_CHECK int gsp_ring__enter(struct gsp_ring *ring, struct gsp_err *err);
void gsp_ring__leave(struct gsp_ring *ring);

/* Maps some lanes in advance, for threads that cannot open the file: the process has no descriptors
 * left, or has changed its root or user. Uses only address space. */
void gsp_ring__map_spares(struct gsp_ring *ring, int fd);
void gsp_ring__unmap_lanes(struct gsp_ring *ring);

/* Opens the ring's file. Returns -1 if it cannot be opened. No descriptor stays open, because the
 * program could see it, and programs that become daemons close all descriptors. */
int gsp_ring__open_file(const struct gsp_ring *ring);
