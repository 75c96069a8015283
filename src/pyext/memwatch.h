/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memwatch.h -- the memory of this process, now or as a thread of ours sees it at intervals.
 *
 * Reads:   /proc/self/statm and status; of a GPU, what cuMemGetInfo says, if its address was given.
 * Gives:   samples and the greatest of all of them, also of those that were thinned out.
 * Used by: memory.c.  No Python here: the thread never needs the interpreter.
 * Threads: every function from any thread.  After fork() the child's copy is not running; it may
 *          be started again there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* When so many samples are there, every second one is dropped and the interval doubles. */
#define GSP_MEMWATCH_KEPT 65536

struct gsp_memory {
    int64_t at_ns;
    int64_t resident_bytes;  /* -1: not known, as of all of them */
    int64_t reserved_bytes;  /* with writable memory that was asked for and not touched */
    int64_t device_bytes;    /* in use on the GPU, by whomever */
    int64_t anonymous_bytes; /* resident, without pages of files and shared ones */
    int64_t unfiled_bytes;   /* resident, without pages of files; -1 but of a memwatch's samples */
};

/* How a thread asks the driver of a GPU; all 0 without one. */
struct gsp_memwatch_device {
    int (*set_context)(void *context);
    int (*get_info)(size_t *free_bytes, size_t *total_bytes);
    void *context;
};

struct gsp_memwatch; /* opaque */

/* Never fails: what cannot be read is -1. */
void gsp_pyext__memory_now(const struct gsp_memwatch_device *device, struct gsp_memory *out);
/* The same with unfiled_bytes, which takes longer. */
void gsp_pyext__memory_sample(const struct gsp_memwatch_device *device, struct gsp_memory *out);
/* Fields of /proc/self/status in bytes, by their names with newline and colon; all of one moment.
 * False when one is missing. */
GSP_MUST_CHECK bool gsp_pyext__status_bytes(const char *const *names, int64_t *bytes, size_t count);

/* NULL when there is no memory. */
struct gsp_memwatch *gsp_pyext__memwatch_new(int64_t interval_ns,
                                             const struct gsp_memwatch_device *device);
/* Takes the first sample, and the rest by a thread if one is wanted.  False when no thread can be
 * had; what was seen before is forgotten. */
GSP_MUST_CHECK bool gsp_pyext__memwatch_start(struct gsp_memwatch *watch, bool with_thread);
/* Takes the last sample and waits for the thread; nothing when it does not run. */
void gsp_pyext__memwatch_stop(struct gsp_memwatch *watch);
bool gsp_pyext__memwatch_is_on(struct gsp_memwatch *watch);
/* A copy of the samples, owned by the caller, and the greatest values.  NULL when there is no
 * memory. */
struct gsp_memory *gsp_pyext__memwatch_samples(struct gsp_memwatch *watch, size_t *count,
                                               struct gsp_memory *peak);
void gsp_pyext__memwatch_free(struct gsp_memwatch *watch); /* stops it; NULL does nothing */
