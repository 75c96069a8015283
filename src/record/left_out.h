/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_processes.h -- Python processes below one that is recorded alone.
 *
 * Used by: record without --subprocesses, to say whom it leaves out.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

/* Appends "4243 (pt_data_worker: python3 train.py), 4244 (...) and 6 more", safe for a terminal;
 * how many there are.  Quick: who runs the same executable, or one that is called python, is taken
 * for Python.  What multiprocessing keeps for itself is not counted, nor who was forked a moment
 * ago and may be about to run another program. */
size_t gsp_other_processes(pid_t pid, struct gsp_buf *out);
