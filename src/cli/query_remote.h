/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_remote.h -- a statement asked of a server.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/rows_out.h"

/* Whether a word means a server: host:port, http://..., unix:..., and no file has that name. */
bool gsp_query_is_remote(const char *word);

struct gsp_query_remote {
    const struct gsp_parsed *parsed;
    struct gsp_remote_opts remote;
    struct gsp_rows_dest dest;
    struct gsp_sv sql;
    int64_t timeout_ns;
};

/* Asks and writes the rows; tells its errors.  Worth 0 or an exit status. */
int gsp_query_remote_run(const struct gsp_query_remote *query);
