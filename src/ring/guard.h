/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h -- mapped files that are cut while they are read: zeros instead of SIGBUS.
 *
 * A range that is registered reads as zeros from the first byte that has no file behind it any
 * more; the reader can ask from where.  Faults elsewhere go to whoever handled SIGBUS before.
 *
 * Used by: reader.c.
 * Threads: all.
 * Signal-safe: no; the handler is.
 * Allocates: never.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A mapping, read-only and of whole pages.  *cut, UINTPTR_MAX before, gets the address from
 * which on there are zeros; both must live until gsp_guard_remove().
 * Fails with LIMIT, or IO when the handler cannot be set. */
GSP_MUST_CHECK int gsp_guard_add(void *start, size_t len, _Atomic uintptr_t *cut,
                                 struct gsp_err *err);
void gsp_guard_remove(const void *start); /* before munmap; an address that is not there: nothing */
