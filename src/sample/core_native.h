/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_native.h -- registers and stack of a thread in a core file, for the unwinder.
 *
 * Threads: one owner.
 */
#pragma once

#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "native/unwind.h"
#include "proc/core.h"

/* Finds a thread of a core by its id and copies its stack into bytes, to which out points: bytes
 * must not change while out is in use. mem is the memory of the core. If the stack is not in the
 * core, out has only the registers. Fails with NOPROC if no such thread exists, FORMAT if the
 * core has no registers for it, NOMEM. */
GSP_MUST_CHECK int gsp_sample__core_copy_thread(const struct gsp_core *core, struct gsp_mem *mem,
                                                pid_t tid, struct gsp_buf *bytes,
                                                struct gsp_native_copy *out);
