/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_folder.h -- recordings as folders: the format "run" of record and convert.
 *
 * Used by: cli/ (record, convert, report, query).
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "export/format.h"
#include "model/profile.h"
#include "model/tree.h"
#include "store/store.h"

/* A profile.json of more samples is larger than what reads it: profile.gsp has them all. */
#define GSP_RUN_JSON_SAMPLES_MAX 200000U

/* Not in the table of export/format.c: a folder is no stream of bytes. */
extern const struct gsp_format gsp_format_run;

/* Whether a path is meant as a folder: it ends in '/', or it is one. */
bool gsp_run_folder_named(const char *path);

/* Loads the profile of a run.  Fails as gsp_export_format_load(). */
GSP_MUST_CHECK int gsp_run_folder_load(const char *path, bool keep_samples,
                                       struct gsp_profile **out, struct gsp_err *err);
/* Writes tables, meta.json and profile.json into a folder that is ready for them.
 * here: the profile was made on this machine. */
GSP_MUST_CHECK int gsp_run_folder_fill(const char *path, const struct gsp_profile *profile,
                                       const struct gsp_view_options *view, bool here,
                                       struct gsp_err *err);
/* Makes a run of a profile: the folder, profile.gsp and all.  Fails with EXISTS unless replace. */
GSP_MUST_CHECK int gsp_run_folder_save(const char *path, const struct gsp_profile *profile,
                                       const struct gsp_view_options *view, bool replace,
                                       struct gsp_err *err);
/* Shows a run to queries; one that was not ended in order too.  Several, also files of profiles,
 * are joined by commas. */
GSP_MUST_CHECK int gsp_run_folder_add(struct gsp_store *store, const char *path,
                                      struct gsp_err *err);
/* Bytes of the folder's files. */
uint64_t gsp_run_folder_bytes(const char *path);
