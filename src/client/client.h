/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- how commands talk to a daemon: where it is, who we are, questions and refusals.
 *
 * Used by: cli/, later the Python package.
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

/* The address that a person's word means, appended: NULL is this machine, "gpu7" is gpu7:8091,
 * "8092" is localhost:8092, "[::1]", "http://host:port/", "unix:/path" as they are. */
GSP_MUST_CHECK int gsp_client_endpoint(const char *word, struct gsp_buf *out, struct gsp_err *err);

/* Where a token may come from, in this order. */
struct gsp_client_tokens {
    const char *given;       /* --token */
    const char *file;        /* --token-file */
    const char *environment; /* GSPROF_TOKEN */
    const char *config_home; /* XDG_CONFIG_HOME; its gsprof/token is for this machine alone */
    const char *home;        /* HOME, when there is no config_home */
};

/* The token for an endpoint, appended; nothing when there is none.
 * The file in the configuration was never meant for others, so no other machine is shown it.
 * Fails with NOFILE, PERM (file), USAGE (what is in it cannot be a token), NOMEM. */
GSP_MUST_CHECK int gsp_client_token(const struct gsp_client_tokens *tokens, const char *endpoint,
                                    struct gsp_buf *out, struct gsp_err *err);

struct gsp_client_call {
    const char *endpoint; /* as gsp_client_endpoint() gave it */
    const char *token;    /* NULL or "": none */
    const char *method;
    const char *path;
    struct gsp_sv body;
    int64_t timeout_ns;                  /* 0: the default of http/client.h */
    size_t answer_max;                   /* 0: the same */
    const volatile sig_atomic_t *cancel; /* as http/client.h has it */
};

/* What a daemon said besides the message when it refused. */
struct gsp_client_refusal {
    int status; /* 404; 0: there was no answer */
    char code[40];
    char hint[240];
};

/* Asks.  An answer of 2xx is success, its body is appended to out.  Fails with what
 * gsp_http_request() fails with; and for a refusal (refusal->status is set, the message is the
 * daemon's) PERM (401, 403), NOFILE (404), EXISTS (409), USAGE (400, 405, 422), LIMIT (413, 429),
 * TIMEOUT (504), NOTSUP (501), IO (others).  FORMAT: what answered is no daemon of ours. */
GSP_MUST_CHECK int gsp_client_ask(const struct gsp_client_call *call, struct gsp_buf *out,
                                  struct gsp_client_refusal *refusal, struct gsp_err *err);
