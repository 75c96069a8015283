/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_native.h -- a thread of a core file as the unwinder wants it: registers and stack.
 *
 * Used by: sample/dump.c.
 * Threads: one owner.
 */
#pragma once

#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "native/unwind.h"
#include "proc/core.h"

/* A thread of a core by its id; mem is the core's memory.  The stack is copied into bytes, to
 * which out points: it must not change while out is used.  Of a stack that is not in the core
 * the registers are all there is.  Fails with NOPROC when there is no such thread, FORMAT when
 * its registers are not there, NOMEM. */
GSP_MUST_CHECK int gsp_core_copy(const struct gsp_core *core, struct gsp_mem *mem, pid_t tid,
                                 struct gsp_buf *bytes, struct gsp_native_copy *out);
