/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- requests to a daemon: its address, the token, answers and refusals.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_CLIENT_PORT     "8091"
#define GSP_CLIENT_ENDPOINT "localhost:" GSP_CLIENT_PORT

/* Appends the address for what the user typed: NULL is this machine, "gpu7" is gpu7:8091, "8092" is
 * localhost:8092; "http://host:port/" and "unix:/path" stay the same. Fails with USAGE, NOMEM. */
GSP_MUST_CHECK int gsp_client_endpoint(const char *text, struct gsp_buf *out, struct gsp_err *err);

/* Possible origins of a token, in this order. NULL: not set. */
struct gsp_client_tokens {
    const char *given;       /* --token */
    const char *file;        /* --token-file */
    const char *environment; /* GSPROF_TOKEN */
    /* A file; need not exist. Only for servers of this user or root on this machine. */
    const char *config;
};

/* Appends the token for an endpoint; nothing if there is none.
 * Fails with NOFILE, PERM (a file, or another user's server), USAGE (its content is not a token),
 * NOMEM. */
GSP_MUST_CHECK int gsp_client_token(const struct gsp_client_tokens *tokens, const char *endpoint,
                                    struct gsp_buf *out, struct gsp_err *err);

/* Appends "unix:PATH" if the endpoint names this machine and this user's daemon of that port
 * listens on the socket in the user's state folder. That needs no token, and the daemon then knows
 * its owner. Appends nothing otherwise. */
void gsp_client_own_socket(const char *endpoint, struct gsp_buf *out);

struct gsp_client_call {
    const char *endpoint; /* of gsp_client_endpoint() */
    const char *token;    /* NULL or "": none */
    const char *method;
    const char *path;
    struct gsp_sv body;
    int64_t timeout_ns;                  /* 0: the default of http/client.h */
    size_t answer_max;                   /* bytes; 0: likewise */
    const volatile sig_atomic_t *cancel; /* see http/client.h */
};

/* What a refusal contains besides the message. */
struct gsp_client_refusal {
    int status; /* 404; 0: no answer */
    char code[40];
    char hint[240];
};

/* Sends a request. If the status is 2xx, appends the body to out. Fails as gsp_http_request() does.
 * For a refusal, refusal->status is set, err has the daemon's message, and the code is PERM (401,
 * 403), NOFILE or NOPROC (404), EXISTS (409), USAGE (400, 405, 422), LIMIT (413, 429), TIMEOUT
 * (504), NOTSUP (501) or IO (others). Fails with FORMAT if the server is not gsprof. */
GSP_MUST_CHECK int gsp_client_request(const struct gsp_client_call *call, struct gsp_buf *out,
                                      struct gsp_client_refusal *refusal, struct gsp_err *err);
