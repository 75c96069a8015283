/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- sends one HTTP request, with limits. The only user of libcurl.
 *
 * Supports http:// and unix sockets. Uses proxies of the environment, except for this machine.
 * Does not follow redirects.
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_http_client_request {
    const char *method;   /* "GET" */
    const char *endpoint; /* "host:port", "http://host:port", "unix:/path" */
    const char *path;     /* "/status", with its query */
    const char *token;    /* or NULL */
    struct gsp_sv body;   /* JSON, or empty */
    int64_t timeout_ns;   /* 0: 30 s */
    size_t answer_max;    /* 0: 64 MB; more fails with LIMIT */
    /* If a signal handler sets it to a value other than 0, the call fails with INTR within about a
     * second. May be NULL. */
    const volatile sig_atomic_t *cancel;
};

struct gsp_http_client_answer {
    int status;
    struct gsp_buf body; /* the caller frees it */
};

/* Succeeds with an answer of any status. Fails with NOPROC (no server), TIMEOUT, LIMIT, USAGE
 * (invalid endpoint), INTR, NOTSUP (no libcurl), NOMEM, IO. */
GSP_MUST_CHECK int gsp_http_request(const struct gsp_http_client_request *call,
                                    struct gsp_http_client_answer *out, struct gsp_err *err);
