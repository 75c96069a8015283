/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unsampled_processes.h -- lists the Python processes below a target that `record` without
 * --subprocesses does not sample.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

/* Appends "4243 (pt_data_worker: python3 train.py), 4244 (...) and 6 more", safe to print on a
 * terminal, and returns the number of processes. Takes a process for Python if it runs the same
 * executable as the target, or one whose name starts with "python". Leaves out the resource tracker
 * of multiprocessing, and processes that were forked a moment ago and may be about to exec. */
size_t gsp_record_unsampled_processes_put(pid_t pid, struct gsp_buf *out);
