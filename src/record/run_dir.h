/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_place.h -- the folder of a `gsprof run`: its name, who has it, and what is said of it.
 *
 * A run without a name gets that of its program and the time; when such a folder is there already
 * a number is added.  A folder belongs to whoever made its meta.json, so two runs of one name are
 * never mixed.
 *
 * Used by: cmd_run.c.
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
    char path[GSP_RUN_PATH_MAX]; /* "": there is no folder */
    bool was_made;               /* the folder was not there */
    char host[256];
    char cwd[GSP_RUN_PATH_MAX];
    char kernel[256];
    char *command; /* the program's words, joined as a shell reads them */
    struct gsp_run_meta about;
};

/* What a run is called when nobody says: "train-20260131-235959". */
void gsp_run_place_name(char *const *argv, int64_t now_ns, struct gsp_buf *out);

/* Makes the folder and a meta.json that says that the run goes on.  On failure path is "", and
 * about is filled all the same.  Fails with USAGE (a name that is a path), EXISTS (a run is there,
 * unless force; or goes on there), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_run_place_make(struct gsp_run_place *place,
                                      const struct gsp_run_place_opts *opts, struct gsp_err *err);
/* Nothing was recorded: takes away what make made. */
void gsp_run_place_discard(struct gsp_run_place *place);
void gsp_run_place_free(struct gsp_run_place *place); /* {0} does nothing; removes nothing */
