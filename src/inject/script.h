/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.h -- has an interpreter of 3.14 or later run a file by itself (PEP 768), with no stop.
 *
 * Reads:   the runtime's debug offsets, the list of its threads.
 * Writes:  the file's name and a flag into the state of one thread that is running.
 * Used by: cli/, before it takes to inject.h.
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/mem.h"
#include "py/locate.h"

struct gsp_inject_armed {
    pid_t pid;
    gsp_raddr pending; /* 0: nothing is armed */
};

/* Asks a thread of the main interpreter to run the file soon.  place is borrowed for the call.
 * Fails with NOTSUP (an older version, switched off by PYTHON_DISABLE_REMOTE_DEBUG, or no thread
 * runs that could do it), FORMAT, FAULT, PERM, NOPROC, LIMIT (the name is too long). */
GSP_MUST_CHECK int gsp_inject_arm(const struct gsp_py_place *place,
                                  const struct gsp_py_runtime *runtime, const char *path,
                                  struct gsp_inject_armed *out, struct gsp_err *err);
/* Takes back what was not begun; a file that is being run runs on. */
void gsp_inject_disarm(struct gsp_inject_armed *armed);
