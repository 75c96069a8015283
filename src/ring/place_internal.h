/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_internal.h -- functions that place.c and sweep.c share.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "ring/place.h"

/* Opens a folder of this user; root may read the folders of all users. Does not follow links.
 * Returns a descriptor, or fails with NOFILE, PERM, IO or NOWRITE. */
GSP_MUST_CHECK int gsp_place__open_own(int at_fd, const char *path, bool for_writing,
                                       struct gsp_err *err);
/* Returns the pid namespace in meta.json; 0: unknown. */
uint64_t gsp_place__pid_ns(int folder_fd);
/* Whether gsprof creates files with this name in ring directories. */
bool gsp_place__is_ours(const char *name);
/* Like gsp_places_read(), but includes directories without rings. */
GSP_MUST_CHECK int gsp_place__read_bare(struct gsp_places *out, struct gsp_err *err);
