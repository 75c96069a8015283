/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h -- the ENDPOINT of a query: a process, a run folder or a file.
 *
 *   4242              the rings of a process, and its current stacks while it runs
 *   runs/today        a run folder
 *   steps.parquet     rows of one table
 *   profile.gsp       a profile, in any format that can be read
 *   train.gspm        a memory recording
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "ring/dir.h"
#include "source/backtraces.h"
#include "store/store.h"

enum gsp_endpoint_kind {
    GSP_ENDPOINT_PID,
    GSP_ENDPOINT_FOLDER,
    GSP_ENDPOINT_PARQUET,
    GSP_ENDPOINT_PROFILE,
    GSP_ENDPOINT_MEMORY,
};

struct gsp_endpoint {
    const char *text; /* as typed, borrowed */
    enum gsp_endpoint_kind kind;
    pid_t pid;                              /* 0 unless kind is PID */
    bool is_live;                           /* the process runs */
    bool has_rings;                         /* ring_dirs has one or two */
    struct gsp_ring_dir_pair ring_dirs;     /* of the process */
    struct gsp_source_backtraces backtrace; /* the store keeps a pointer to it */
};

/* Whether text can be an endpoint: a number, host:port, a URL, or an existing path. */
bool gsp_source_endpoint_is_plausible(const char *text);

/* Whether text is host:port. */
bool gsp_source_endpoint_is_address(const char *text);

/* Finds the process, folder or file that text means. Fails with NOPROC (no such process, and no
 * rings of one), NOFILE, USAGE (not a process id), PERM. */
GSP_MUST_CHECK int gsp_source_endpoint_find(const char *text, struct gsp_endpoint *out,
                                            struct gsp_err *err);
/* Adds the tables of the endpoint to a store. Keep endpoint until the store is closed. */
GSP_MUST_CHECK int gsp_source_endpoint_add(struct gsp_endpoint *endpoint, struct gsp_store *store,
                                           struct gsp_err *err);
