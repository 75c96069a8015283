/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h -- reads the memory of a target: a live process, a core file or a recorded copy.
 *
 * Reads:   process_vm_readv of a live process; an array of regions in tests and fuzzers.
 * Gives:   untrusted bytes.
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

/* Maximum number of spans of one system call. */
#define GSP_MEM_SPANS_MAX 512U

struct gsp_mem; /* opaque */

struct gsp_mem_ops {
    /* Reads spans in order; *done is the number of complete ones. Returns 0, FAULT, NOPROC or
     * PERM. */
    int (*gather)(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done);
    void (*free)(void *self);
};

/* A region of a recorded target, for tests and fuzzers. */
struct gsp_mem_region {
    gsp_raddr addr;
    size_t len;
    const void *bytes; /* borrowed until gsp_proc_mem_free() */
};

GSP_MUST_CHECK int gsp_proc_mem_open_pid(pid_t pid, struct gsp_mem **out, struct gsp_err *err);
/* Opens any other source. ops->free frees self, also on failure. */
GSP_MUST_CHECK int gsp_proc__mem_open_ops(const struct gsp_mem_ops *ops, void *self,
                                          struct gsp_mem **out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_proc__mem_open_regions(const struct gsp_mem_region *regions, size_t count,
                                              struct gsp_mem **out, struct gsp_err *err);
void gsp_proc_mem_free(struct gsp_mem *mem); /* NULL does nothing */

/* Reads all len bytes, or fails with FAULT, NOPROC or PERM. */
GSP_MUST_CHECK int gsp_proc_mem_read(struct gsp_mem *mem, gsp_raddr addr, void *to, size_t len);

/* Reads many spans in one system call. *done (may be NULL) is the number of spans, from the first
 * on, that are complete; the others are undefined. */
GSP_MUST_CHECK int gsp_proc_mem_gather(struct gsp_mem *mem, const struct gsp_mem_span *spans,
                                       size_t count, size_t *done);

/* Reads one pointer-sized word. */
GSP_MUST_CHECK int gsp_proc_mem_read_u64(struct gsp_mem *mem, gsp_raddr addr, uint64_t *out);

/* Number of system calls so far; for tests and `gsprof doctor`. */
uint64_t gsp_proc__mem_calls(const struct gsp_mem *mem);

/* Writes all len bytes to the memory of a live process, or fails with FAULT, NOPROC or PERM. Used
 * only to inject code on request. */
GSP_MUST_CHECK int gsp_proc_mem_write_pid(pid_t pid, gsp_raddr addr, const void *from, size_t len);
