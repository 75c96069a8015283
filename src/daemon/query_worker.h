/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_worker.h -- work that is done by another process of this program: SQL, and looks into
 * targets.  What goes wrong there, a crash or too much memory, is that process's end alone.
 *
 * Used by: routes_control.c (runs workers), cli/ (is one: gsprof query-worker).
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_worker_order {
    const char *const *args; /* of this program, without its name; NULL at the end */
    struct gsp_sv input;     /* its stdin */
    struct gsp_sv extra;     /* a file that it has open as GSP_WORKER_EXTRA_FD */
    int64_t timeout_ns;      /* it is killed then */
    int asker_fd;            /* the connection of whom it works for: killed when that is closed */
};

#define GSP_WORKER_EXTRA_FD 3

struct gsp_worker_result {
    int out_fd;         /* a file with what it wrote to stdout, at its start; the caller's */
    int status;         /* exit status */
    struct gsp_buf err; /* what it wrote to stderr; the caller's */
};

/* Runs one to its end.  Fails with TIMEOUT, INTR (nobody waits for it any more), NOMEM (it was
 * killed, for what it took), IO. */
GSP_MUST_CHECK int gsp_worker_run(const struct gsp_worker_order *order,
                                  struct gsp_worker_result *out, struct gsp_err *err);

/* What the query worker does. */
struct gsp_query_order {
    const char *format; /* "json", "object", "csv", "arrow" */
    int64_t timeout_ns;
    uint64_t row_limit;
    uint64_t memory_bytes;
    bool stacks; /* python.backtrace has the present stacks of processes that run */
};

/* Reads SQL from stdin and what the daemon told (query_facts.h) from GSP_WORKER_EXTRA_FD, asks all
 * rings there are and the log of frames, and writes rows to stdout.  A failure is one line of JSON
 * on stderr.  Worth an exit status. */
int gsp_query_worker_main(const struct gsp_query_order *order);
