/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap.h -- a snapshot of the memory of a target that the last walk needed.
 *
 * Code that follows pointers through a target reads from a snapshot. Bytes that it had to fetch
 * individually become a window, and the next refresh reads all windows in one system call: in the
 * steady state a walk over any number of structs costs one process_vm_readv. Windows close to each
 * other are merged; unused windows are dropped.
 *
 * Several snapshots (one per thread of the target) can share one gather: plan each, gather the
 * spans, then report to each how many of its spans were read.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "proc/mem.h"

#define GSP_SNAP_WINDOWS_MAX      96U
/* Maximum size of a window; longer reads fail with LIMIT. */
#define GSP_SNAP_WINDOW_BYTES_MAX (64U << 10)

struct gsp_snap_window {
    gsp_raddr addr;
    uint32_t len;
    uint32_t off;     /* in the snapshot's buffer */
    uint32_t used_lo; /* the part that was read since the last trim */
    uint32_t used_hi;
    bool valid;    /* the buffer holds bytes of this refresh */
    bool has_twin; /* and a second copy of them */
};

struct gsp_snap {
    struct gsp_mem *mem;                                  /* borrowed */
    struct gsp_snap_window windows[GSP_SNAP_WINDOWS_MAX]; /* sorted by address */
    size_t count;
    size_t planned; /* windows of the current refresh */
    size_t last;    /* index of the window used last */
    unsigned char *buf;
    size_t buf_len;
    size_t buf_cap;
    size_t twin_off; /* distance from a first copy to its second copy */
    unsigned age;    /* refreshes since the last trim */
    uint64_t misses;
};

void gsp_proc_snap_init(struct gsp_snap *snap, struct gsp_mem *mem);
void gsp_proc_snap_free(struct gsp_snap *snap);

/* Begins a refresh: discards all bytes and writes the spans to read to spans (at most cap; windows
 * beyond that are fetched on demand). Returns the number of spans. */
size_t gsp_proc_snap_plan(struct gsp_snap *snap, struct gsp_mem_span *spans, size_t cap);
/* Ends a refresh: the first `done` spans of the plan are complete. */
void gsp_proc_snap_filled(struct gsp_snap *snap, size_t done);
/* Plans, gathers and ends a refresh of this snapshot alone. */
void gsp_proc_snap_refresh(struct gsp_snap *snap);

/* The same with a second copy of each window, made right after the first. */
void gsp_proc_snap_refresh_twice(struct gsp_snap *snap);
/* The second copy of len bytes at addr, or NULL. Borrowed until the next call on this snapshot. */
const unsigned char *gsp_proc_snap_twin(const struct gsp_snap *snap, gsp_raddr addr, size_t len);

/* Points *out at len bytes at addr, borrowed until the next call on this snapshot. Fetches them if
 * no window has them. Fails with FAULT, NOPROC, PERM, or LIMIT if they do not fit in a window. */
GSP_MUST_CHECK int gsp_proc_snap_view(struct gsp_snap *snap, gsp_raddr addr, size_t len,
                                      const unsigned char **out);

/* Copies len bytes at addr; otherwise as gsp_proc_snap_view(). */
GSP_MUST_CHECK int gsp_proc_snap_read(struct gsp_snap *snap, gsp_raddr addr, void *to, size_t len);
