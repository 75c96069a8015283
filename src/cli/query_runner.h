/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_runner.h -- runs SQL in a local store or on a daemon, and prints rows and errors.
 *
 * Ctrl-C cancels the running query; a second Ctrl-C ends the program.
 *
 * Threads: one owner; one query at a time per process (signal handlers).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/rows_out.h"
#include "source/endpoint.h"
#include "store/store.h"

struct gsp_query_runner {
    const struct gsp_parsed *parsed;    /* borrowed */
    struct gsp_remote_opts remote_opts; /* for daemons */
    struct gsp_endpoint endpoint;
    struct gsp_store *store;   /* NULL: queries go to the daemon */
    struct gsp_remote remote;  /* the daemon */
    struct gsp_params params;  /* of each statement; borrowed */
    struct gsp_rows_dest dest; /* where rows go */
    size_t warned;             /* warnings of the store printed so far */
    bool timing;               /* print the time of each query */
    bool locals;               /* python.backtrace has local variables */
};

/* Opens the endpoint and locks the store. output, if not NULL, is the Parquet file that a query may
 * write. Prints its errors; returns 0 or an exit status. The caller closes it, also after a
 * failure. */
int gsp_cli__query_open(struct gsp_query_runner *runner, const char *text,
                        const struct gsp_store_options *options, const char *output);
void gsp_cli__query_close(struct gsp_query_runner *runner); /* {0} does nothing */

/* Runs the statements of a text until the first failure and writes their rows. Prints its errors;
 * returns 0 or an exit status. */
int gsp_cli__query_run(struct gsp_query_runner *runner, struct gsp_sv sql);

/* Runs a statement and returns its rows; the caller frees *out with gsp_rows_free(). */
GSP_MUST_CHECK int gsp_cli__query_rows(struct gsp_query_runner *runner, const char *sql,
                                       struct gsp_rows **out, struct gsp_err *err);
