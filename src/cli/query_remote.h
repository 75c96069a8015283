/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_remote.h -- runs SQL on a daemon.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/rows_out.h"
#include "model/rows.h"
#include "store/store.h"

/* Whether a word is the address of a daemon (host:port, http://..., unix:...) and not a file. */
bool gsp_query_is_remote(const char *word);

struct gsp_query_remote {
    const struct gsp_parsed *parsed;
    struct gsp_remote_opts remote;
    struct gsp_rows_dest dest;
    struct gsp_sv sql;
    struct gsp_params params;
    int64_t timeout_ns;
};

/* Runs a query and writes its rows. Prints its errors; returns 0 or an exit status. */
int gsp_query_remote_run(const struct gsp_query_remote *query);

/* Opens a daemon for several statements; checks that it responds and accepts queries. Prints its
 * errors; returns 0 or an exit status. The caller closes it, also after a failure. */
int gsp_query_remote_open(struct gsp_remote *remote, const struct gsp_parsed *parsed,
                          const char *word, const struct gsp_remote_opts *opts, int64_t timeout_ns);
/* Runs one statement and writes its rows; prints and returns as above. */
int gsp_query_remote_ask(struct gsp_remote *remote, struct gsp_sv sql,
                         const struct gsp_params *params, const struct gsp_rows_dest *dest);
/* Runs a statement and returns its rows, which the caller frees with gsp_rows_free(). */
GSP_MUST_CHECK int gsp_query_remote_rows(struct gsp_remote *remote, struct gsp_sv sql,
                                         struct gsp_rows **out, struct gsp_err *err);
