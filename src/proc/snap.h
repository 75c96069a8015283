/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap.h -- a snapshot of the parts of a target that were needed last time.
 *
 * Whoever chases pointers through a target asks a snapshot for bytes.  What it had to fetch
 * one by one becomes a window, and the next refresh reads all windows in one system call:
 * in the steady state a walk over any number of structs costs one process_vm_readv.
 * Windows that are near each other grow together; windows nobody asks for are dropped.
 *
 * Several snapshots (one per thread of the target) can be refreshed by one gather:
 * plan each, gather the spans, tell each how far the gather came.
 *
 * Used by: py/ for everything that moves.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/mem.h"

#define GSP_SNAP_WINDOWS_MAX      96U
/* Bytes of one window; longer needs are read each time. */
#define GSP_SNAP_WINDOW_BYTES_MAX (64U << 10)

struct gsp_snap_window {
    gsp_raddr addr;
    uint32_t len;
    uint32_t off;     /* in the snapshot's buffer */
    uint32_t used_lo; /* the part that was asked for since the last trim */
    uint32_t used_hi;
    bool valid;    /* the buffer holds this refresh's bytes */
    bool has_twin; /* and a second copy of them */
};

struct gsp_snap {
    struct gsp_mem *mem;                                  /* borrowed */
    struct gsp_snap_window windows[GSP_SNAP_WINDOWS_MAX]; /* sorted by address */
    size_t count;
    size_t planned; /* windows of the refresh under way */
    size_t last;    /* where the last answer was found */
    unsigned char *buf;
    size_t buf_len;
    size_t buf_cap;
    size_t twin_off; /* where second copies are, from the first ones on */
    unsigned age;    /* refreshes since the last trim */
    uint64_t misses;
};

void gsp_snap_init(struct gsp_snap *snap, struct gsp_mem *mem);
void gsp_snap_free(struct gsp_snap *snap);

/* Begins a refresh: everything fetched before is forgotten, and the spans to read are
 * appended to spans (at most cap; the rest stays unread and is fetched on demand).
 * Returns how many were appended. */
size_t gsp_snap_plan(struct gsp_snap *snap, struct gsp_mem_span *spans, size_t cap);
/* Ends it: of the spans that plan appended, the first done are complete. */
void gsp_snap_filled(struct gsp_snap *snap, size_t done);
/* Both at once, for a snapshot that is refreshed alone. */
void gsp_snap_refresh(struct gsp_snap *snap);

/* The same with a second copy of each window, made right after the first. */
void gsp_snap_refresh_twice(struct gsp_snap *snap);
/* Lends the second copy of len bytes at addr until the next call on this snapshot; NULL if there is
 * none. */
const unsigned char *gsp_snap_twin(const struct gsp_snap *snap, gsp_raddr addr, size_t len);

/* Lends len bytes at addr until the next call on this snapshot; fetches them if no window has
 * them.  0, or the failure of the read: FAULT, NOPROC, PERM; LIMIT for more than a window. */
GSP_MUST_CHECK int gsp_snap_view(struct gsp_snap *snap, gsp_raddr addr, size_t len,
                                 const unsigned char **out);

/* Copies len bytes at addr; fetches them if no window has them.
 * 0, or the failure of the read: FAULT, NOPROC, PERM, LIMIT. */
GSP_MUST_CHECK int gsp_snap_read(struct gsp_snap *snap, gsp_raddr addr, void *to, size_t len);
