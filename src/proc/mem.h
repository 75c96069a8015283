/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h -- reading the memory of a target, wherever it is: a live process or a recorded copy.
 *
 * Reads:   process_vm_readv of a live process; an array of regions in tests and fuzzers.
 * Gives:   bytes.  Nothing they say is believed by anyone.
 * Used by: py/ and proc/ for every look into a target.
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* An address in the target. */
typedef uint64_t gsp_raddr;

struct gsp_mem_span {
    gsp_raddr addr;
    size_t len;
    void *to;
};

/* Spans one gather may have. */
#define GSP_MEM_SPANS_MAX 512U

struct gsp_mem; /* opaque */

struct gsp_mem_ops {
    /* Reads spans in order; *done is how many are complete.  0, or FAULT, NOPROC, PERM. */
    int (*gather)(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done);
    void (*free)(void *self);
};

/* A region of a recorded target: tests and fuzzers. */
struct gsp_mem_region {
    gsp_raddr addr;
    size_t len;
    const void *bytes; /* borrowed until gsp_mem_free() */
};

GSP_MUST_CHECK int gsp_mem_open_pid(pid_t pid, struct gsp_mem **out, struct gsp_err *err);
/* Any other source; self is freed by ops->free, also on failure. */
GSP_MUST_CHECK int gsp_mem_open_ops(const struct gsp_mem_ops *ops, void *self, struct gsp_mem **out,
                                    struct gsp_err *err);
GSP_MUST_CHECK int gsp_mem_open_regions(const struct gsp_mem_region *regions, size_t count,
                                        struct gsp_mem **out, struct gsp_err *err);
void gsp_mem_free(struct gsp_mem *mem); /* NULL does nothing */

/* All len bytes or a failure: FAULT, NOPROC or PERM. */
GSP_MUST_CHECK int gsp_mem_read(struct gsp_mem *mem, gsp_raddr addr, void *to, size_t len);

/* Many spans in one system call.  *done (may be NULL) is how many spans, from the first on,
 * are complete; the rest is undefined. */
GSP_MUST_CHECK int gsp_mem_gather(struct gsp_mem *mem, const struct gsp_mem_span *spans,
                                  size_t count, size_t *done);

/* One pointer-sized word. */
GSP_MUST_CHECK int gsp_mem_read_u64(struct gsp_mem *mem, gsp_raddr addr, uint64_t *out);

/* System calls made so far: for tests and `gsprof doctor`. */
uint64_t gsp_mem_calls(const struct gsp_mem *mem);

/* Writes to the memory of a live process, all len bytes or a failure: FAULT, NOPROC or PERM.  Only
 * what is injected by request does this. */
GSP_MUST_CHECK int gsp_mem_write_pid(pid_t pid, gsp_raddr addr, const void *from, size_t len);
