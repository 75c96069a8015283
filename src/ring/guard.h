/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h -- protects users of mapped files that are truncated: zeros instead of SIGBUS.
 *
 * A registered range reads as zeros from the page where the file now ends; what is written there
 * stays in this process. Faults elsewhere go to the previous SIGBUS handler.
 *
 * Threads: any.
 * Signal-safe: no; the handler is.
 * Allocates: never.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Registers a mapping of whole pages. The caller sets *cut to UINTPTR_MAX; on a fault it becomes
 * the address where the zeros start. Both must live until gsp_ring_guard_remove(). Fails with
 * LIMIT, or with IO if the handler cannot be installed. */
GSP_MUST_CHECK int gsp_ring_guard_add(void *start, size_t len, bool is_writable,
                                      _Atomic uintptr_t *cut, struct gsp_err *err);
void gsp_ring_guard_remove(const void *start); /* before munmap; ignores an unknown address */

/* These functions for writers of rings (struct gsp_ring_spec). A table, so that the agent, which
 * must not install a handler in a target, contains neither. */
struct gsp_ring_guard {
    int (*add)(void *start, size_t len, bool is_writable, _Atomic uintptr_t *cut,
               struct gsp_err *err);
    void (*remove)(const void *start);
};
extern const struct gsp_ring_guard gsp_ring_guard;
