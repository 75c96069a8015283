/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_profile.h -- the stack samples of a run: reads them from a run folder, and derives the files
 * that the recorder did not write itself.
 *
 * A run folder has its samples in up to three forms. Which one is authoritative depends on the
 * command that wrote the folder; the other forms are derived from it here and nowhere else:
 *
 *   gsprof run       the tables (rings drained to Parquet)    -> profile.gsp, profile.json
 *   gsprof record    profile.gsp                              -> tables, profile.json
 *   gsprof convert   the profile that was converted           -> profile.gsp, tables, profile.json
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "model/tree.h"
#include "store/profile_read.h"
#include "store/store.h"

/* A larger profile.json is not written: its readers cannot handle it. */
#define GSP_RUN_JSON_SAMPLES_MAX 200000U

/* Loads the profile of a run from the first of profile.gsp, the tables and profile.json that has
 * samples: a killed recorder leaves only one of them. If none has samples, *out is
 * an empty profile or NULL. Skips a form that cannot be read; *skipped describes the first of them
 * (code 0: none). store has the run's tables and is locked; NULL: opens one if needed.
 * Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store_run_profile_load(const char *folder, struct gsp_store *store,
                                              bool keep_samples, struct gsp_profile **out,
                                              struct gsp_err *skipped, struct gsp_err *err);
/* Loads profile.gsp, else profile.json. Fails with NOFILE if neither exists, and like
 * gsp_export_format_load(). */
GSP_MUST_CHECK int gsp_store_run_profile_load_file(const char *folder, struct gsp_profile **out,
                                                   struct gsp_err *err);
/* Reads the profile from the tables of a locked store, with its samples. *out is NULL if there are
 * none. Fails like gsp_store__profile_read(). */
GSP_MUST_CHECK int gsp_store_run_profile_load_tables(struct gsp_store *store,
                                                     struct gsp_profile **out, struct gsp_err *err);

/* Derives profile.gsp and profile.json from the tables in store. samples is their expected number.
 * If it is above GSP_RUN_JSON_SAMPLES_MAX, copies the samples to profile.gsp without keeping them
 * in memory, writes no profile.json and sets *out to NULL; else *out is the profile. */
GSP_MUST_CHECK int gsp_store_run_profile_write_files(const char *folder, struct gsp_store *store,
                                                     const struct gsp_profile_source *from,
                                                     uint64_t samples, struct gsp_profile **out,
                                                     struct gsp_err *err);
/* Derives the tables, meta.json and profile.json from a profile. The folder exists.
 * is_local: the profile was recorded on this host. Fails like gsp_store__run_write(). */
GSP_MUST_CHECK int gsp_store_run_profile_write_tables(const char *folder,
                                                      const struct gsp_profile *profile,
                                                      const struct gsp_view_options *view,
                                                      bool is_local, struct gsp_err *err);
/* Creates a run folder from a profile. Fails with EXISTS unless replace, and as above. */
GSP_MUST_CHECK int gsp_store_run_profile_save(const char *folder, const struct gsp_profile *profile,
                                              const struct gsp_view_options *view, bool replace,
                                              struct gsp_err *err);
