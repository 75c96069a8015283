/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_worker.h -- runs SQL and reads targets in a separate process of this program, so that a
 * crash or a lack of memory ends only that process.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_worker_job {
    const char *const *args; /* arguments of gsprof, without its name; ends with NULL */
    struct gsp_sv input;     /* its stdin */
    int input_fd;            /* a file to use as its stdin instead; borrowed; 0: none */
    struct gsp_sv extra;     /* content of a file that it has open as GSP_WORKER_EXTRA_FD */
    int64_t timeout_ns;      /* the worker is killed 2 s after this time */
    uint64_t memory_bytes;   /* of its data, beyond GSP_WORKER_BASE_BYTES */
    uint64_t answer_bytes;   /* of its stdout */
    int client_fd;           /* connection of the client; if it closes, the worker is killed */
};

#define GSP_WORKER_EXTRA_FD   3
/* What a worker may use in addition to its memory limit: libraries, buffers, strings that the
 * engine does not count. Stacks of threads come on top; they are mostly untouched. */
#define GSP_WORKER_BASE_BYTES (UINT64_C(256) << 20)

struct gsp_worker_result {
    int out_fd;         /* a file with its stdout, at the start; the caller closes it */
    int status;         /* exit status */
    struct gsp_buf err; /* its stderr; the caller frees it */
};

/* Runs a worker and waits for it. Fails with TIMEOUT, INTR (the client has disconnected), LIMIT
 * (the answer is too long), NOMEM (it was killed), IO (also if it crashed). */
GSP_MUST_CHECK int gsp_daemon__worker_run(const struct gsp_worker_job *order,
                                          struct gsp_worker_result *out, struct gsp_err *err);

/* The HTTP status if a worker reaches a limit. 413 would mean that the request is too long. */
#define GSP_WORKER_LIMIT_STATUS 422

/* The job of the query worker. */
struct gsp_query_job {
    const char *format; /* "json", "object", "csv", "csv-raw", "arrow" */
    int64_t timeout_ns;
    uint64_t row_limit;
    uint64_t memory_bytes;
    bool stacks;      /* python.backtrace reads the current stacks of running processes */
    bool all_users;   /* for root: rings of all users */
    int64_t only_pid; /* read only the rings of this process, refuse what needs trust; 0: of all */
};

/* Reads SQL from stdin and the facts (query_input.h) from GSP_WORKER_EXTRA_FD, queries all rings
 * and the frame log, and writes rows to the file that is stdout at the start. During the query,
 * stdout is /dev/null: the engine may log there. A failure is one line of JSON on stderr. Returns
 * an exit status. */
int gsp_daemon_query_worker_main(const struct gsp_query_job *order);
