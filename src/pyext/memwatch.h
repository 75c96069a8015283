/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memwatch.h -- the memory of this process: now, or sampled by a thread.
 *
 * Reads:   /proc/self/statm and status; cuMemGetInfo of a GPU, if its address was given.
 * Gives:   samples, and the maximum of all samples, including the dropped ones.
 * Threads: every function from any thread; the sampling thread never needs the GIL. In a child of
 *          fork() the copy is stopped and may be started again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* At this many samples, every second one is dropped and the interval doubles. */
#define GSP_MEMWATCH_KEPT 65536

struct gsp_memwatch_sample {
    int64_t at_ns;
    int64_t resident_bytes;  /* this and all others: -1 if not known */
    int64_t reserved_bytes;  /* resident, plus writable memory that was never touched */
    int64_t device_bytes;    /* in use on the GPU, by all processes */
    int64_t anonymous_bytes; /* resident, without pages of files and shared ones */
    int64_t nonfile_bytes; /* resident, without pages of files; set by gsp_pyext__memory_sample() */
};

/* Functions of the GPU's driver; all 0 without one. */
struct gsp_memwatch_device {
    int (*set_context)(void *context);
    int (*get_info)(size_t *free_bytes, size_t *total_bytes);
    void *context;
};

struct gsp_memwatch; /* opaque */

/* Never fails: values that cannot be read are -1. */
void gsp_pyext__memory_now(const struct gsp_memwatch_device *device,
                           struct gsp_memwatch_sample *out);
/* The same, plus nonfile_bytes, which takes longer. */
void gsp_pyext__memory_sample(const struct gsp_memwatch_device *device,
                              struct gsp_memwatch_sample *out);
/* Reads fields of /proc/self/status in bytes, by their names with newline and colon, all in one
 * read. Returns false if one is missing. */
GSP_MUST_CHECK bool gsp_pyext__status_bytes(const char *const *names, int64_t *bytes, size_t count);

/* Returns NULL if out of memory. */
struct gsp_memwatch *gsp_pyext__memwatch_new(int64_t interval_ns,
                                             const struct gsp_memwatch_device *device);
/* Discards earlier samples, takes the first one, and with_thread starts a thread for the others.
 * Returns false if the thread cannot be started. */
GSP_MUST_CHECK bool gsp_pyext__memwatch_start(struct gsp_memwatch *watch, bool with_thread);
/* Takes the last sample and waits for the thread; does nothing if it is not running. */
void gsp_pyext__memwatch_stop(struct gsp_memwatch *watch);
bool gsp_pyext__memwatch_is_on(struct gsp_memwatch *watch);
/* Returns a copy of the samples, owned by the caller, and the maxima. Returns NULL if out of
 * memory. */
struct gsp_memwatch_sample *gsp_pyext__memwatch_samples(struct gsp_memwatch *watch, size_t *count,
                                                        struct gsp_memwatch_sample *peak);
void gsp_pyext__memwatch_free(struct gsp_memwatch *watch); /* stops it; NULL does nothing */
