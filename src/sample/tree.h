/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h -- the process tree below a process.
 *
 * Reads:   /proc.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* The pids of the process tree below pid, pid first, each once. The caller frees *out with
 * free(). */
GSP_MUST_CHECK int gsp_sample_tree_pids(pid_t pid, pid_t **out, size_t *count, struct gsp_err *err);
