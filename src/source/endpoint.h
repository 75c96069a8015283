/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h -- what a query is asked of: a process, a run's folder, or a file.
 *
 *   4242              the rings of a process, and its present stacks while it runs
 *   runs/today        the folder of a run
 *   steps.parquet     rows of one table
 *   profile.gsp       a profile, in any format that can be read
 *   train.gspm        a recording of memory
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
    pid_t pid;                             /* 0 unless kind is PID */
    bool is_live;                          /* the process runs */
    bool has_rings;                        /* place is filled */
    struct gsp_ring_dir place;             /* of a process */
    struct gsp_backtrace_source backtrace; /* the store keeps a pointer to it */
};

/* Whether a word can be meant as one: a number, host:port, or a path that is there. */
bool gsp_endpoint_looks(const char *word);

/* Whether a word is host:port. */
bool gsp_endpoint_is_address(const char *word);

/* Finds out what a word means, and sees that it is there.  Fails with NOPROC (neither a process
 * nor rings of one), NOFILE, USAGE (no number of a process), PERM. */
GSP_MUST_CHECK int gsp_endpoint_find(const char *word, struct gsp_endpoint *out,
                                     struct gsp_err *err);
/* Gives the store what the endpoint has; it must live until the store is closed. */
GSP_MUST_CHECK int gsp_endpoint_add(struct gsp_endpoint *endpoint, struct gsp_store *store,
                                    struct gsp_err *err);
