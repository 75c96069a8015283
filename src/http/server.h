/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h -- an HTTP server: requests come to one function, answers go back whole or as a
 * stream.  Knows nothing of profiling.
 *
 * Checks before any handler sees a request: the token when one is set, Host and Origin (a page
 * of another site cannot talk to us through the user's browser), sizes, numbers of connections,
 * time limits for slow clients.
 * The door to libmicrohttpd.
 * Used by: daemon/.
 * Threads: handlers run on the server's threads, several at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_http_server; /* opaque */

struct gsp_http_request {
    const char *method; /* "GET", ... */
    const char *path;   /* decoded, starts with '/', no query */
    struct gsp_sv body; /* complete */
    bool authorised;    /* came with the token, or no token is set */
    bool is_trusted;    /* came with the token, or over the Unix socket */
    int client_fd;      /* its connection, for poll() alone: POLLRDHUP says that it went away; -1 */
    void *query;        /* for gsp_http_query() */
};

/* A value of the query part (?name=value) or a header; NULL when absent.  Borrowed for the
 * handler's time. */
const char *gsp_http_query(const struct gsp_http_request *request, const char *name);
const char *gsp_http_header(const struct gsp_http_request *request, const char *name);

/* A stream of bytes that ends when we or the client end it (server-sent events, big files). */
struct gsp_http_stream {
    /* Appends what there is to out; returns 1: go on at once, 0: nothing now, ask again after
     * gsp_http_wake(), negative: the end. */
    int (*read)(void *ctx, struct gsp_buf *out);
    void (*close)(void *ctx); /* once, when the connection is gone */
    void *ctx;
};

struct gsp_http_answer {
    int status;                    /* 200 */
    int file_fd;                   /* taken when >= 0: sent in place of body */
    const char *content_type;      /* "application/json"; a constant */
    const char *allow;             /* methods, with a 405; a constant, or NULL */
    char *file_name;               /* Content-Disposition: attachment; taken, or NULL */
    struct gsp_buf body;           /* taken */
    struct gsp_http_stream stream; /* when it has read: sent in place of body */
};

struct gsp_http_options {
    const char *bind;         /* "127.0.0.1", "::1", "0.0.0.0" */
    uint16_t port;            /* 0: a free one */
    const char *unix_path;    /* also (or, with bind NULL, only) this socket, mode 0600; or NULL */
    const char *token;        /* NULL: none needed; refused (USAGE) when bind is not loopback */
    size_t body_max;          /* 0: 1 MB; more is 413 */
    unsigned connections_max; /* 0: 1,024 */
    unsigned timeout_s;       /* of an idle or slow connection; 0: 30 */
    unsigned threads;         /* 0: 1 */
    /* Must fill answer, which is {0} with status 200, JSON and no file; runs on a server thread
     * or, when it is slow, on one of its own. */
    void (*handle)(void *ctx, const struct gsp_http_request *request,
                   struct gsp_http_answer *answer);
    /* Whether the answer may take longer than a moment: others must not wait for it.  May be
     * NULL: none does. */
    bool (*is_slow)(void *ctx, const char *method, const char *path);
    /* Whether the path may be had without the token (/health). May be NULL: none may. */
    bool (*is_public)(void *ctx, const char *path);
    void *ctx;
};

/* Opens the port and answers nobody yet: whoever connects waits.  For a caller that wants to know
 * whether it may have the port before it does anything else.
 * Fails with USAGE (an address without a token), EXISTS (the port is in use), PERM, NOMEM, IO. */
GSP_MUST_CHECK int gsp_http_open(const struct gsp_http_options *options,
                                 struct gsp_http_server **out, struct gsp_err *err);
/* Begins to answer, once.  On failure the server is still to be stopped. */
GSP_MUST_CHECK int gsp_http_start(struct gsp_http_server *server, struct gsp_err *err);
/* Both. */
GSP_MUST_CHECK int gsp_http_serve(const struct gsp_http_options *options,
                                  struct gsp_http_server **out, struct gsp_err *err);
uint16_t gsp_http_port(const struct gsp_http_server *server);
/* All streams with nothing to say are asked again. */
void gsp_http_wake(struct gsp_http_server *server);
/* Ends connections, joins the threads. */
void gsp_http_stop(struct gsp_http_server *server); /* NULL does nothing */

/* {"error": {"code", "message", "hint"}} with the status of the code (base/err.h) or the given
 * one. hint may be NULL. */
void gsp_http_fail(struct gsp_http_answer *answer, int status, const char *code,
                   const char *message, const char *hint);
