/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h -- an HTTP server that calls one handler for all requests. Answers are complete bodies,
 * files or streams. The only user of libmicrohttpd.
 *
 * Before the handler runs, the server checks Host and Origin (pages of other sites must not use the
 * server through the user's browser), finds out how far it can trust the client, and checks the
 * form of the headers, sizes, the number of connections and time limits for slow clients.
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

/* What a client has shown, by rising trust. */
enum gsp_http_trust {
    GSP_HTTP_ANONYMOUS, /* nothing */
    GSP_HTTP_TOKEN,     /* the token, or the cookie of a login */
    GSP_HTTP_OWNER,     /* it is the server's user or root: it came over the Unix socket */
};

struct gsp_http_request {
    const char *method; /* "GET", ... */
    const char *path;   /* decoded, starts with '/', no query */
    struct gsp_sv body; /* complete */
    enum gsp_http_trust trust;
    int client_fd; /* only for poll(): POLLRDHUP if the client disconnected; -1: unknown */
    void *query;   /* for gsp_http_query() */
};

/* Why a request is refused; the texts are constants. */
struct gsp_http_refusal {
    int status; /* 0: it is not */
    const char *code;
    const char *message;
    const char *hint; /* NULL: that of gsp_http_options.hint() */
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
    bool is_in_memory;             /* file_fd is a file in memory: counts for answers_bytes_max */
    const char *content_type;      /* "application/json"; a constant */
    const char *allow;             /* allowed methods, for status 405; a constant, or NULL */
    const char *location;          /* for status 303; a constant, or NULL */
    char *file_name;               /* for Content-Disposition: attachment; freed by the server */
    char *cookie;                  /* for Set-Cookie, or NULL; freed by the server */
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
    unsigned per_address_max; /* TCP connections of one address; 0: 256 */
    /* Anonymous clients use at most half of the streams, threads and answers. */
    unsigned streams_max;       /* concurrent streams; 0: 64 */
    unsigned timeout_s;         /* of an idle or slow connection; 0: 30 */
    uint64_t answers_bytes_max; /* of all answers in memory that are being sent; 0: 512 MB */
    uint64_t rate_min;          /* bytes/s at which a client must read an answer; 0: any */
    unsigned threads;           /* 0: 1 */
    /* Fills answer, which initially is an empty JSON body with status 200. Runs on a server thread,
     * or on its own thread if is_slow(). */
    void (*handle)(void *ctx, const struct gsp_http_request *request,
                   struct gsp_http_answer *answer);
    /* Whether the handler may take long, so that other requests must not wait for it. May be
     * NULL. */
    bool (*is_slow)(void *ctx, const char *method, const char *path);
    /* Whether the path says that the server works (/health): it is answered even if too many
     * connections are open. May be NULL. */
    bool (*is_vital)(void *ctx, const char *path);
    /* Sets *why if the client may not send the request, whose body is not read yet. NULL: everybody
     * may send it or, if a token is set, every client that has shown it. */
    void (*admit)(void *ctx, const struct gsp_http_request *request, struct gsp_http_refusal *why);
    /* The hint for a refusal of the server itself: code is "BUSY", "HOST", "HTTP", "LIMIT",
     * "ORIGIN", "PERM" or "TOKEN". Returns a constant text or NULL. May be NULL. */
    const char *(*hint)(const char *code);
    void *ctx;
};

/* Opens the port without answering yet: clients that connect wait. For a caller that must know
 * whether the port is free before it does anything else.
 * Fails with USAGE (invalid address, or a token is required), EXISTS (the port is in use), PERM,
 * NOTSUP (no libmicrohttpd), NOMEM, IO. */
GSP_MUST_CHECK int gsp_http_open(const struct gsp_http_options *options,
                                 struct gsp_http_server **out, struct gsp_err *err);
/* Also listens on a Unix socket, mode 0600. Call it before gsp_http_start(), at most once and
 * without options.unix_path. Fails with USAGE (the path is too long), EXISTS, PERM, NOMEM, IO. */
GSP_MUST_CHECK int gsp_http_open_unix(struct gsp_http_server *server, const char *path,
                                      struct gsp_err *err);
/* Starts answering. The caller must stop the server, also after a failure. */
GSP_MUST_CHECK int gsp_http_start(struct gsp_http_server *server, struct gsp_err *err);
uint16_t gsp_http_port(const struct gsp_http_server *server);
/* Calls read() of all waiting streams again. */
void gsp_http_wake(struct gsp_http_server *server);
/* Ends all connections, joins the threads and frees the server. */
void gsp_http_stop(struct gsp_http_server *server); /* NULL does nothing */

/* Logins. A one-time code is exchanged for a cookie, which counts as the token. */

#define GSP_HTTP_CODE_BYTES   20U /* "abcd-efgh-jkmn-pqrs" with the NUL: 80 random bits */
#define GSP_HTTP_COOKIE_BYTES 160U
#define GSP_HTTP_LOGIN_HOURS  12 /* the life of a cookie */

/* Makes a new code, which replaces the previous one. Fails with IO (no random numbers). */
GSP_MUST_CHECK int gsp_http_login_code(struct gsp_http_server *server,
                                       char out[GSP_HTTP_CODE_BYTES], struct gsp_err *err);
/* Exchanges a code for the value of Set-Cookie. The case of its letters, hyphens and blanks do not
 * matter. The code is then void; the oldest of more than 16 logins ends.
 * Fails with PERM (a wrong code, or none is valid), IO (no random numbers). */
GSP_MUST_CHECK int gsp_http_login(struct gsp_http_server *server, struct gsp_sv code,
                                  char cookie[GSP_HTTP_COOKIE_BYTES], struct gsp_err *err);

/* Sets the answer to {"error": {"code", "message", "hint"}} with this status. hint may be NULL. */
void gsp_http_answer_error(struct gsp_http_answer *answer, int status, const char *code,
                           const char *message, const char *hint);
