/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_dir.h -- the folder of a `gsprof run`: its name, its creation and its meta.json.
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

struct gsp_run_place_opts {
    const char *name;   /* --name; NULL */
    const char *output; /* --output; NULL */
    bool force;
    char *const *argv; /* of the program */
};

struct gsp_run_place {
    char path[GSP_RUN_PATH_MAX]; /* "": no folder */
    bool was_made;               /* we created the folder */
    char host[256];
    char cwd[GSP_RUN_PATH_MAX];
    char kernel[256];
    char *command; /* argv, quoted for a shell */
    struct gsp_run_meta about;
};

/* Appends the default name of a run: "train-20260131-235959". */
void gsp_run_place_name(char *const *argv, int64_t now_ns, struct gsp_buf *out);

/* Creates the folder and a meta.json with the state RUNNING. On failure path is "", but about is
 * filled. Fails with USAGE (the name is a path), EXISTS (the folder has a run, unless force; or
 * that run is being written), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_run_place_make(struct gsp_run_place *dir,
                                      const struct gsp_run_place_opts *opts, struct gsp_err *err);
/* Removes what gsp_run_place_make() created: nothing was recorded. */
void gsp_run_place_discard(struct gsp_run_place *dir);
void gsp_run_place_free(struct gsp_run_place *dir); /* {0} does nothing; removes no files */
