/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- one HTTP request, with limits.  The door to libcurl.
 *
 * Only http:// and unix sockets; no proxies unless asked for by the environment, no redirects.
 * Used by: client/, later push/.
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_http_call {
    const char *method;   /* "GET" */
    const char *endpoint; /* "host:port", "http://host:port", "unix:/path" */
    const char *path;     /* "/status", with its query */
    const char *token;    /* or NULL */
    struct gsp_sv body;   /* JSON, or empty */
    int64_t timeout_ns;   /* 0: 30 s */
    size_t answer_max;    /* 0: 64 MB; more fails with LIMIT */
    /* When a signal handler makes it other than 0, the call fails with INTR within a second or so;
     * NULL: nothing does. */
    const volatile sig_atomic_t *cancel;
};

struct gsp_http_reply {
    int status;
    struct gsp_buf body; /* the caller frees it */
};

/* An answer of any status is success.  Fails with NOPROC (nobody listens), TIMEOUT, LIMIT,
 * USAGE (the endpoint), INTR, IO. */
GSP_MUST_CHECK int gsp_http_request(const struct gsp_http_call *call, struct gsp_http_reply *out,
                                    struct gsp_err *err);
