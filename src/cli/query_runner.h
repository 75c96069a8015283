/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asker.h -- asks a store, or a server, and shows its answers and its errors; what query and
 * tables share.
 *
 * Ctrl-C ends the query that runs; a second one ends the program.
 * Threads: one owner, one at a time in a program (signals).
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

struct gsp_asker {
    const struct gsp_parsed *parsed;    /* borrowed */
    struct gsp_remote_opts remote_opts; /* for servers */
    struct gsp_endpoint endpoint;
    struct gsp_store *store;   /* NULL: a server is asked */
    struct gsp_remote remote;  /* the server */
    struct gsp_params params;  /* of each statement; borrowed */
    struct gsp_rows_dest dest; /* where answers go */
    size_t warned;             /* warnings of the store that were told */
    bool timing;               /* say how long each took */
    bool locals;               /* python.backtrace has local variables */
};

/* Opens what the word means, with everything that it has, and locks the store.
 * output (may be NULL) is the Parquet file that may be written.  Tells its errors itself: worth
 * 0 or an exit status.  Close it in any case. */
int gsp_asker_open(struct gsp_asker *asker, const char *word,
                   const struct gsp_store_options *options, const char *output);
void gsp_asker_close(struct gsp_asker *asker); /* {0} does nothing */

/* Runs the statements of a text, one by one up to the first that fails, and writes their rows;
 * tells its errors.  Worth 0 or an exit status. */
int gsp_asker_ask(struct gsp_asker *asker, struct gsp_sv sql);

/* Runs a statement of our own; the caller frees *out with gsp_rows_free(). */
GSP_MUST_CHECK int gsp_asker_rows(struct gsp_asker *asker, const char *sql, struct gsp_rows **out,
                                  struct gsp_err *err);
