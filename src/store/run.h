/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h -- a run: a folder with meta.json and one or more Parquet files for each table.
 *
 * Files are named <schema>.<table>[.<number>].parquet. For tables that were drained from rings,
 * only the files that manifest.json lists are read; rows that are still in the rings of their
 * process are read from there. docs/formats/run.md describes the format.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "store/store.h"

#define GSP_RUN_META     "meta.json"
#define GSP_RUN_PROFILE  "profile.gsp"
#define GSP_RUN_JSON     "profile.json"
#define GSP_RUN_REPORT   "report.html"

#define GSP_RUN_PATH_MAX 4096U

struct gsp_run_process {
    pid_t pid;
    int64_t rank;        /* GSP_NULL_I64: none */
    const char *name;    /* NULL: unknown */
    const char *cmdline; /* NULL: unknown */
    const char *python;  /* version; NULL: unknown */
};

enum gsp_run_state {
    GSP_RUN_COMPLETE, /* all files are written */
    GSP_RUN_RUNNING,  /* still recording, or the recorder was killed */
    GSP_RUN_PARTIAL,  /* ended, but some files could not be written */
};

/* The contents of meta.json. */
struct gsp_run_meta {
    const char *name;    /* NULL: the folder's name */
    const char *host;    /* NULL: unknown */
    const char *command; /* NULL: unknown */
    enum gsp_run_state state;
    /* The program that gsprof started. If argv is NULL, none of these is written. */
    char *const *argv; /* NULL-ended */
    const char *cwd;
    const char *kernel; /* "Linux 6.1.0 x86_64" */
    const char *ending; /* how the program ended, as text; NULL while it runs */
    int64_t status;     /* exit status as in a shell; GSP_NULL_I64: unknown */
    int64_t signal;     /* that ended the program; GSP_NULL_I64: none */
    /* Times; 0: unknown. */
    int64_t start_ns; /* CLOCK_REALTIME */
    int64_t end_ns;
    int64_t duration_ns;
    int64_t period_ns; /* of sampling */
    const char *unit;  /* of a sample's weight */
    uint64_t samples;
    const struct gsp_run_process *processes;
    size_t process_count;
};

/* Writes the path of a file in a run's folder. Fails with LIMIT. */
GSP_MUST_CHECK int gsp_store_run_path(char out[GSP_RUN_PATH_MAX], const char *folder,
                                      const char *name, struct gsp_err *err);
/* Returns the last component of the path: the default name of the run. Borrowed. */
struct gsp_sv gsp_store_run_name(const char *path);

/* Whether a path is a folder that contains a file of a run. */
bool gsp_store_run_exists(const char *path);

/* Creates the folder (its parent must exist), or checks that it contains no run.
 * Fails with EXISTS (it contains a run, unless replace), NOWRITE. */
GSP_MUST_CHECK int gsp_store_run_create(const char *path, bool replace, struct gsp_err *err);
/* Removes the files of a run from a folder, and nothing else. */
void gsp_store_run_remove_files(const char *path);

/* Writes the profile's tables and meta.json; times, samples and processes come from the profile.
 * Replaces existing files. Fails with NOTSUP (no engine), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_store__run_write(const char *path, const struct gsp_profile *profile,
                                        const struct gsp_run_meta *about, struct gsp_err *err);

/* Writes meta.json. Fails with EXISTS (unless replace), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_store_run_write_meta(const char *path, const struct gsp_run_meta *about,
                                            bool replace, struct gsp_err *err);

/* Adds a run's tables, and the rows that are still in its rings. Leaves out files that cannot be
 * read, with a warning (gsp_store_warning()). Fails with NOFILE (not a run), NOMEM, ... */
GSP_MUST_CHECK int gsp_store_add_run(struct gsp_store *store, const char *path,
                                     struct gsp_err *err);
/* Adds the row of gsprof.run for a profile that was read from a file. */
GSP_MUST_CHECK int gsp_store_add_run_row(struct gsp_store *store, const char *path,
                                         const struct gsp_profile *profile, struct gsp_err *err);
/* Whether a run has Parquet files of a table. */
bool gsp_store_run_has_table(const char *path, const char *schema, const char *table);
