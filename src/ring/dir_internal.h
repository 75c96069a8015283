/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_internal.h -- functions that dir.c and sweep.c share.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "ring/dir.h"

/* Opens a folder of this user; root may read the folders of all users. Does not follow links.
 * Returns a descriptor, or fails with NOFILE, PERM, IO or NOWRITE. */
GSP_MUST_CHECK int gsp_ring__dir_open_own(int at_fd, const char *path, bool for_writing,
                                          struct gsp_err *err);
/* Returns the pid namespace in meta.json; 0: unknown. */
uint64_t gsp_ring__dir_pid_ns(int folder_fd);
/* Whether gsprof creates files with this name in ring directories. */
bool gsp_ring__dir_owns_file(const char *name);
/* Like gsp_ring_dirs_read(), but includes directories without rings. */
GSP_MUST_CHECK int gsp_ring__dirs_read_all(struct gsp_ring_dirs *out, struct gsp_err *err);
