/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.h -- makes an interpreter of Python 3.14 or later run a file (PEP 768), without a stop.
 *
 * Reads:   the debug offsets of the runtime, the list of its threads.
 * Writes:  the file name and a flag into the state of one running thread.
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/mem.h"
#include "py/locate.h"

struct gsp_inject_script {
    pid_t pid;
    gsp_raddr pending; /* 0: nothing is armed */
};

/* Requests that a thread of the main interpreter runs the file soon. input is borrowed for the
 * call. Fails with NOTSUP (an older version, disabled by PYTHON_DISABLE_REMOTE_DEBUG, or no
 * running thread), FORMAT, FAULT, PERM, NOPROC, LIMIT (the name is too long). */
GSP_MUST_CHECK int gsp_inject__script_arm(const struct gsp_py_locate_input *input,
                                          const struct gsp_py_runtime *runtime, const char *path,
                                          struct gsp_inject_script *out, struct gsp_err *err);
/* Cancels a request that has not started; a running file continues. */
void gsp_inject__script_disarm(struct gsp_inject_script *armed);
