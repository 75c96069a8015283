/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h -- an HTTP server that calls one handler for all requests. Answers are complete bodies,
 * files or streams. The only user of libmicrohttpd.
 *
 * Before the handler runs, the server checks the token (if set), Host and Origin (pages of other
 * sites must not use the server through the user's browser), sizes, the number of connections and
 * time limits for slow clients.
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
    bool authorised;    /* has the token, or no token is set */
    bool is_trusted;    /* has the token, or came over the Unix socket */
    int client_fd;      /* only for poll(): POLLRDHUP if the client disconnected; -1: unknown */
    void *query;        /* for gsp_http_query() */
};

/* Return a value of the query string (?name=value) or a header; NULL if absent. Borrowed until the
 * handler returns. */
const char *gsp_http_query(const struct gsp_http_request *request, const char *name);
const char *gsp_http__header(const struct gsp_http_request *request, const char *name);

/* An answer of unknown length (server-sent events, large files). */
struct gsp_http_stream {
    /* Appends the available bytes to out. Returns 1: call again at once; 0: call again after
     * gsp_http_wake(); negative: end of the stream. */
    int (*read)(void *ctx, struct gsp_buf *out);
    void (*close)(void *ctx); /* called once, when the connection is closed; may be NULL */
    void *ctx;
};

struct gsp_http_answer {
    int status;                    /* 200 */
    int file_fd;                   /* sent instead of body if >= 0; the server closes it */
    const char *content_type;      /* "application/json"; a constant */
    const char *allow;             /* allowed methods, for status 405; a constant, or NULL */
    char *file_name;               /* for Content-Disposition: attachment; freed by the server */
    struct gsp_buf body;           /* freed by the server */
    struct gsp_http_stream stream; /* sent instead of body if read is set */
};

struct gsp_http_options {
    const char *bind;         /* "127.0.0.1", "::1", "0.0.0.0" */
    uint16_t port;            /* 0: a free one */
    const char *unix_path;    /* also listen on this socket, mode 0600; only, if bind is NULL */
    const char *token;        /* NULL: no token; allowed only if bind is a loopback address */
    size_t body_max;          /* 0: 1 MB; a longer body gives status 413 */
    unsigned connections_max; /* 0: 1,024 */
    unsigned timeout_s;       /* of an idle or slow connection; 0: 30 */
    unsigned threads;         /* 0: 1 */
    /* Fills answer, which initially is an empty JSON body with status 200. Runs on a server thread,
     * or on its own thread if is_slow(). */
    void (*handle)(void *ctx, const struct gsp_http_request *request,
                   struct gsp_http_answer *answer);
    /* Whether the handler may take long, so that other requests must not wait for it. May be
     * NULL. */
    bool (*is_slow)(void *ctx, const char *method, const char *path);
    /* Whether the path needs no token (/health). May be NULL. */
    bool (*is_public)(void *ctx, const char *path);
    /* The hint for a refusal of the server itself: code is "BUSY", "HOST", "LIMIT", "ORIGIN",
     * "PERM" or "TOKEN". Returns a constant text or NULL. May be NULL. */
    const char *(*hint)(const char *code);
    void *ctx;
};

/* Opens the port without answering yet: clients that connect wait. For a caller that must know
 * whether the port is free before it does anything else.
 * Fails with USAGE (invalid address, or a token is required), EXISTS (the port is in use), PERM,
 * NOTSUP (no libmicrohttpd), NOMEM, IO. */
GSP_MUST_CHECK int gsp_http_open(const struct gsp_http_options *options,
                                 struct gsp_http_server **out, struct gsp_err *err);
/* Starts answering. The caller must stop the server, also after a failure. */
GSP_MUST_CHECK int gsp_http_start(struct gsp_http_server *server, struct gsp_err *err);
uint16_t gsp_http_port(const struct gsp_http_server *server);
/* Calls read() of all waiting streams again. */
void gsp_http_wake(struct gsp_http_server *server);
/* Ends all connections, joins the threads and frees the server. */
void gsp_http_stop(struct gsp_http_server *server); /* NULL does nothing */

/* Sets the answer to {"error": {"code", "message", "hint"}} with this status. hint may be NULL. */
void gsp_http_answer_error(struct gsp_http_answer *answer, int status, const char *code,
                           const char *message, const char *hint);
