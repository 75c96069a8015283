/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backtraces.h -- python.backtrace of a running process: its stacks at the time of the query.
 *
 * Threads: the store calls the functions from one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "sample/dump.h"
#include "store/store.h"

struct gsp_source_backtraces {
    pid_t pid;
    bool locals;         /* with local variables */
    bool native;         /* with native frames: stops each thread briefly */
    bool is_one_of_many; /* a process that cannot be read has no rows, and the query goes on */
};

/* Adds the table to a store. Keep source until the store is closed. Does not read the process: if
 * that fails, the query that scans the table fails. */
GSP_MUST_CHECK int gsp_source__backtraces_add(struct gsp_store *store,
                                              struct gsp_source_backtraces *source,
                                              struct gsp_err *err);

/* Appends the rows; the callback of the store. */
GSP_MUST_CHECK int gsp_source__backtraces_fill(void *source, struct gsp_batch *batch,
                                               struct gsp_err *err);

/* Writes the local variables of a frame as a JSON object, replacing the contents of out. */
void gsp_source_backtrace_put_locals(const struct gsp_dump_frame *frame, struct gsp_buf *out);
