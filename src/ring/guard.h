/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h -- protects readers of mapped files that are truncated: zeros instead of SIGBUS.
 *
 * A registered range reads as zeros from the page where the file now ends. Faults elsewhere go to
 * the previous SIGBUS handler.
 *
 * Threads: any.
 * Signal-safe: no; the handler is.
 * Allocates: never.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Registers a read-only mapping of whole pages. The caller sets *cut to UINTPTR_MAX; on a fault it
 * becomes the address where the zeros start. Both must live until gsp_ring_guard_remove().
 * Fails with LIMIT, or with IO if the handler cannot be installed. */
GSP_MUST_CHECK int gsp_ring_guard_add(void *start, size_t len, _Atomic uintptr_t *cut,
                                      struct gsp_err *err);
void gsp_ring_guard_remove(const void *start); /* before munmap; ignores an unknown address */
