/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backtrace_source.h -- python.backtrace of a live process: its stacks when a query reads them.
 *
 * Used by: the commands that query a process.
 * Threads: the store calls back in one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "sample/dump.h"
#include "store/store.h"

/* A process whose stacks are shown; its owner keeps it until the store is closed. */
struct gsp_backtrace_source {
    pid_t pid;
    bool locals;         /* local variables too */
    bool native;         /* native frames too: each thread stops for a moment */
    bool is_one_of_many; /* a process that cannot be read has no rows; the query goes on */
};

/* A process that cannot be read is no failure here but one of the query that scans the table. */
GSP_MUST_CHECK int gsp_backtrace_source_add(struct gsp_store *store,
                                            struct gsp_backtrace_source *source,
                                            struct gsp_err *err);

/* Appends the rows: what the store calls. */
GSP_MUST_CHECK int gsp_backtrace_source_fill(void *source, struct gsp_batch *batch,
                                             struct gsp_err *err);

/* The local variables of a frame as a JSON object, in the place of what out had. */
void gsp_backtrace_locals(const struct gsp_dump_frame *frame, struct gsp_buf *out);
