/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_internal.h -- what place.c and sweep.c share.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "ring/place.h"

/* Opens a folder that has to be ours, or anybody's when we are root and only read.  No link is
 * followed.  Worth a descriptor, or NOFILE, PERM, IO, NOWRITE. */
GSP_MUST_CHECK int gsp_place__open_own(int at_fd, const char *path, bool for_writing,
                                       struct gsp_err *err);
/* The pid namespace that meta.json names; 0: unknown. */
uint64_t gsp_place__pid_ns(int folder_fd);
/* What this program puts there; everything else stays, and so does the folder then. */
bool gsp_place__is_ours(const char *name);
/* As gsp_places_read(), with folders that have no rings. */
GSP_MUST_CHECK int gsp_place__read_bare(struct gsp_places *out, struct gsp_err *err);
