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

/* A process of a run. */
struct gsp_run_process {
    pid_t pid;
    int64_t rank;        /* GSP_NULL_I64: it has none */
    const char *name;    /* NULL: not known */
    const char *cmdline; /* NULL: not known */
    const char *python;  /* its version; NULL: not known */
};

/* How a run stands. */
enum gsp_run_state {
    GSP_RUN_COMPLETE, /* every file is there */
    GSP_RUN_RUNNING,  /* or whoever made it was killed */
    GSP_RUN_PARTIAL,  /* it ended, and not everything could be written */
};

/* What is said of a run beside its rows: meta.json. */
struct gsp_run_about {
    const char *name;    /* NULL: the folder's */
    const char *host;    /* NULL: not known */
    const char *command; /* NULL: not known */
    enum gsp_run_state state;
    /* Of a program that was started for it; the rest is left out when argv is NULL. */
    char *const *argv; /* NULL-ended */
    const char *cwd;
    const char *kernel; /* "Linux 6.1.0 x86_64" */
    const char *ending; /* how the program ended, in words; NULL while it runs */
    int64_t status;     /* as a shell has it; GSP_NULL_I64: not known */
    int64_t signal;     /* that ended it; GSP_NULL_I64: none */
    /* Times are 0 when they are not known. */
    int64_t start_ns; /* CLOCK_REALTIME */
    int64_t end_ns;
    int64_t duration_ns;
    int64_t period_ns; /* between two samples */
    const char *unit;  /* of a sample's weight */
    uint64_t samples;
    const struct gsp_run_process *processes;
    size_t process_count;
};

/* The path of a file in a run's folder.  Fails with LIMIT. */
GSP_MUST_CHECK int gsp_run_file(char out[GSP_RUN_PATH_MAX], const char *folder, const char *name,
                                struct gsp_err *err);
/* The folder's own name, which is the run's if it was given none.  Borrowed. */
struct gsp_sv gsp_run_name(const char *path);

/* Whether a path is a folder that has something of a run in it. */
bool gsp_run_is(const char *path);

/* Makes the folder (its parent must be there), or sees that it has nothing of a run in it.
 * Fails with EXISTS (a run is there, unless replace), NOWRITE. */
GSP_MUST_CHECK int gsp_run_prepare(const char *path, bool replace, struct gsp_err *err);
/* Removes the files of a run from a folder, and nothing else. */
void gsp_run_clear(const char *path);

/* Writes the profile's tables and meta.json, whose times, samples and processes are the profile's;
 * replaces what bears their names.
 * Fails with NOTSUP (no engine), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_run_write(const char *path, const struct gsp_profile *profile,
                                 const struct gsp_run_about *about, struct gsp_err *err);

/* Writes meta.json alone.  Fails with EXISTS (one is there, unless replace), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_run_write_meta(const char *path, const struct gsp_run_about *about,
                                      bool replace, struct gsp_err *err);

/* Shows a run's tables, and what its rings hold behind them.  Files that cannot be read are left
 * out and told by gsp_store_warning().  Fails with NOFILE (it is no run), NOMEM, ... */
GSP_MUST_CHECK int gsp_store_add_run(struct gsp_store *store, const char *path,
                                     struct gsp_err *err);
/* The row of gsprof.run for a profile that is a file. */
GSP_MUST_CHECK int gsp_store_add_run_row(struct gsp_store *store, const char *path,
                                         const struct gsp_profile *profile, struct gsp_err *err);
/* Whether a run has rows of a table in files. */
bool gsp_run_has_table(const char *path, const char *schema, const char *table);
