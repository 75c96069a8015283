/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_folder.h -- run folders as sources of profiles and tables.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "store/store.h"

/* Whether a path means a folder: it ends in '/', or a folder exists there. */
bool gsp_source__path_is_folder(const char *path);

/* Loads the profile of a run. Fails with NOFILE (the run has no profile), and like
 * gsp_export_format_load(). */
GSP_MUST_CHECK int gsp_source__run_load(const char *path, bool keep_samples,
                                        struct gsp_profile **out, struct gsp_err *err);
/* Adds the tables of a run to a store, also if the recorder is running or was killed. path may be a
 * comma-separated list of runs and profile files. */
GSP_MUST_CHECK int gsp_source__run_add(struct gsp_store *store, const char *path,
                                       struct gsp_err *err);
/* Returns the size of the folder's files in bytes. */
uint64_t gsp_source_run_bytes(const char *path);
