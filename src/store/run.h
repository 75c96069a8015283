/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h -- the folder of a recording: meta.json, and Parquet files, one or more for each table.
 *
 * Files are named <schema>.<table>[.<number>].parquet.  Of tables that were drained from rings
 * only the files that manifest.json names count; rows that are still in the rings of their
 * process are shown from there, each once.  docs/formats/run.md says the same in prose.
 *
 * Used by: cli/ (record, convert, query), later the daemon.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "store/store.h"

#define GSP_RUN_META    "meta.json"
#define GSP_RUN_PROFILE "profile.gsp"
#define GSP_RUN_JSON    "profile.json"

/* What is said of a run beside its rows. */
struct gsp_run_about {
    const char *name;    /* NULL: the folder's */
    const char *host;    /* NULL: not known */
    const char *command; /* NULL: not known */
};

/* Whether a path is a folder that has something of a run in it. */
bool gsp_run_is(const char *path);

/* Makes the folder (its parent must be there), or sees that it has nothing of a run in it.
 * Fails with EXISTS (a run is there, unless replace), NOWRITE. */
GSP_MUST_CHECK int gsp_run_prepare(const char *path, bool replace, struct gsp_err *err);
/* Removes the files of a run from a folder, and nothing else. */
void gsp_run_clear(const char *path);

/* Writes the profile's tables and meta.json; replaces what bears their names.
 * Fails with NOTSUP (no engine), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_run_write(const char *path, const struct gsp_profile *profile,
                                 const struct gsp_run_about *about, struct gsp_err *err);

/* Shows a run's tables, and what its rings hold behind them.  Files that cannot be read are left
 * out and told by gsp_store_warning().  Fails with NOFILE (it is no run), NOMEM, ... */
GSP_MUST_CHECK int gsp_store_add_run(struct gsp_store *store, const char *path,
                                     struct gsp_err *err);
/* The row of gsprof.run for a profile that is a file. */
GSP_MUST_CHECK int gsp_store_add_run_row(struct gsp_store *store, const char *path,
                                         const struct gsp_profile *profile, struct gsp_err *err);
/* Whether a run has rows of a table in files. */
bool gsp_run_has_table(const char *path, const char *schema, const char *table);
