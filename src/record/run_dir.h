/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_dir.h -- the folder of a `gsprof run`: its name, its creation and its meta.json.
 *
 * The folder is held by a descriptor from its creation to the end of the run.
 *
 * Without --name a run is named after its program and the time, with a number if that folder
 * exists. The process that creates meta.json owns the folder, so that two runs never share one.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "store/run.h"

#define GSP_RUNS_FOLDER "gsprof-runs"

struct gsp_run_dir_opts {
    const char *name;   /* --name; NULL */
    const char *output; /* --output; NULL */
    bool force;
    char *const *argv; /* of the program */
};

struct gsp_run_dir {
    char path[GSP_RUN_PATH_MAX]; /* for the user; "": no folder */
    /* The same folder as "/proc/self/fd/N", to be used for all its files: the program may have
     * moved the folder and put a link in its place. */
    char handle[32];
    int fd;        /* of the handle; unused if that is "" */
    bool was_made; /* we created the folder */
    char host[256];
    char cwd[GSP_RUN_PATH_MAX];
    char kernel[256];
    char *command; /* argv, quoted for a shell */
    char *name;    /* last part of the path */
    struct gsp_run_meta about;
    int64_t begin_ns; /* CLOCK_MONOTONIC at about.start_ns */
};

/* Appends the default name of a run: "train-20260131-235959". */
void gsp_record__run_dir_default_name(char *const *argv, int64_t now_ns, struct gsp_buf *out);

/* Creates the folder and a meta.json with the state RUNNING. On failure path is "", but about is
 * filled. Fails with USAGE (the name is a path), EXISTS (the folder has a run, unless force; or
 * that run is being written), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_record_run_dir_create(struct gsp_run_dir *dir,
                                             const struct gsp_run_dir_opts *opts,
                                             struct gsp_err *err);
/* Removes what gsp_record_run_dir_create() created: nothing was recorded. */
void gsp_record_run_dir_discard(struct gsp_run_dir *dir);
void gsp_record_run_dir_free(struct gsp_run_dir *dir); /* {0} does nothing; removes no files */
/* Replaces the handle in a message by the path. path NULL: does nothing. */
void gsp_record__run_dir_name_error(const char *handle, const char *path, struct gsp_err *err);
