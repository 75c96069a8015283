/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_internal.h -- types and functions shared by the files of the HTTP server.
 *
 * server.c    sockets, start and stop
 * request.c   one request, from its headers to its answer
 * head.c      the form of a request's headers
 * access.c    access checks: token, cookie, Host, Origin, the peer's user
 * login.c     one-time codes and the cookies that they buy
 * conns.c     connections: limits of their number and speed
 * reply.c     sends answers and streams through libmicrohttpd
 *
 * Threads: a call belongs to the server thread of its connection, or to its job while that runs.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/lock.h"
#include "http/mhd_lib.h"
#include "http/server.h"

#define GSP_HTTP_JOBS_MAX 32U

/* One connection, from accept to close. The server's lock guards prev, next and sent_*. */
struct gsp_http__conn {
    struct gsp_http__conn *prev;
    struct gsp_http__conn *next;
    _Atomic int64_t since_ns; /* start of the wait for a request; 0: one is being answered */
    int64_t sent_ns;          /* start of the interval in which the rate is measured; 0: none */
    uint64_t sent_bytes;      /* that the client's kernel had acknowledged at sent_ns */
    size_t uri_len;           /* of the current request, before it was decoded */
    uint8_t address[16];      /* of the client; IPv6: its network; zero for a Unix socket */
    int fd;                   /* owned by libmicrohttpd */
    bool has_bad_uri;         /* the current request */
    bool is_local;            /* over the Unix socket */
    bool is_surplus;          /* beyond a limit: only public paths are answered */
};

/* A stream that is being sent. The server's lock guards prev, next and suspended. */
struct gsp_http__stream {
    struct gsp_http__stream *prev;
    struct gsp_http__stream *next;
    struct gsp_http_server *server;
    struct MHD_Connection *connection;
    struct gsp_http_stream from;
    struct gsp_buf pending; /* read but not sent yet */
    size_t sent;            /* of pending */
    bool is_anonymous;      /* the client */
    bool ended;
    bool suspended;
};

#define GSP_HTTP_LOGINS_MAX   16U
#define GSP_HTTP_SECRET_CHARS 32U /* of a cookie: 160 random bits */

/* A client that has exchanged a code for a cookie. */
struct gsp_http__login {
    char secret[GSP_HTTP_SECRET_CHARS + 1];
    int64_t end_ns; /* CLOCK_MONOTONIC; 0: unused */
};

struct gsp_http__logins {
    struct gsp_lock lock;
    char code[GSP_HTTP_CODE_BYTES] GSP_GUARDED_BY(lock); /* without hyphens; "": none */
    struct gsp_http__login at[GSP_HTTP_LOGINS_MAX] GSP_GUARDED_BY(lock);
};

struct gsp_http_server {
    struct gsp_http_options options; /* use the copies of its strings below */
    unsigned surplus_max;            /* connections beyond the limits, kept for public paths */
    char *bind;
    char *token;
    char *unix_path;
    struct MHD_Daemon *tcp;
    struct MHD_Daemon *local; /* for the unix socket */
    int tcp_fd;
    int local_fd;
    bool has_unix_file; /* this server created it */
    pthread_t watcher;  /* ends slow connections */
    uint16_t port;
    bool has_watcher;
    bool has_cond;
    struct gsp_http__logins logins;
    struct gsp_lock lock;
    pthread_cond_t changed; /* job_count or stopping changed */
    struct gsp_http__conn *conns GSP_GUARDED_BY(lock);
    struct gsp_http__stream *streams GSP_GUARDED_BY(lock);
    uint64_t wake_seq GSP_GUARDED_BY(lock);      /* calls of gsp_http_wake() */
    unsigned conn_count GSP_GUARDED_BY(lock);    /* over TCP */
    unsigned surplus_count GSP_GUARDED_BY(lock); /* of these */
    unsigned stream_count GSP_GUARDED_BY(lock);
    uint64_t answers_bytes GSP_GUARDED_BY(lock); /* memory of the answers that are being sent */
    unsigned job_count GSP_GUARDED_BY(lock);
    unsigned long_bodies GSP_GUARDED_BY(lock); /* of requests that are not answered completely */
    /* The parts of anonymous clients, at most half of each limit. */
    unsigned anonymous_streams GSP_GUARDED_BY(lock);
    unsigned anonymous_jobs GSP_GUARDED_BY(lock);
    unsigned anonymous_bodies GSP_GUARDED_BY(lock);
    uint64_t anonymous_bytes GSP_GUARDED_BY(lock);
    bool stopping GSP_GUARDED_BY(lock);
};

/* One request. */
struct gsp_http__exchange {
    struct gsp_http_server *server;
    struct MHD_Connection *connection;
    struct gsp_http__conn *conn;
    struct gsp_http_request request;
    struct gsp_http_refusal refusal;
    struct gsp_buf body;
    uint64_t received; /* bytes of the body, including discarded ones */
    struct gsp_http_answer answer;
    uint64_t held_bytes; /* part of server->answers_bytes */
    bool has_long_body;  /* it counts for server->long_bodies */
    bool answered;       /* answer is filled */
    bool must_close;     /* close the connection after the answer */
};

static inline bool gsp_http__is_anonymous(const struct gsp_http__exchange *call)
{
    return call->request.trust == GSP_HTTP_ANONYMOUS;
}

/* request.c */
enum MHD_Result gsp_http__on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *data_len, void **state);
void gsp_http__on_completed(void *cls, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode why);

/* head.c */
/* Sets call->refusal if the headers are malformed or ambiguous. method and version are those of
 * libmicrohttpd. */
void gsp_http__head_check(struct gsp_http__exchange *call, const char *method, const char *version);
/* The value of MHD_OPTION_STRICT_FOR_CLIENT. */
int gsp_http__head_strictness(void);
/* Called with the request's URI before it is decoded. */
void *gsp_http__on_uri(void *cls, const char *uri, struct MHD_Connection *connection);

/* access.c */
/* Sets call->refusal if the request is not allowed. */
void gsp_http__access_check(struct gsp_http__exchange *call);
/* Whether only this machine can connect to an address. */
bool gsp_http__is_loopback(const char *address);

/* Compares in constant time for texts of equal length. */
bool gsp_http__same_secret(const char *a, const char *b);

/* login.c */
/* Whether the request has the cookie of a login. */
bool gsp_http__has_login(struct gsp_http__exchange *call);

/* conns.c */
void gsp_http__on_connection(void *cls, struct MHD_Connection *connection, void **conn,
                             enum MHD_ConnectionNotificationCode what);
/* Starts or ends the measurement of the rate at which the client reads its answer. At the end, the
 * kernel discards what is left of an incomplete answer: a slow client would keep it for long. */
void gsp_http__rate_begin(struct gsp_http__exchange *call);
void gsp_http__rate_end(struct gsp_http__exchange *call, bool is_complete);
/* Whether three quarters of all connections, or of those of the client's address, are in use. */
bool gsp_http__conn_is_crowded(struct gsp_http_server *server, const struct gsp_http__conn *conn);
/* Main function of the watcher thread. */
void *gsp_http__watcher_run(void *server);

/* reply.c */
/* Sends call->answer. */
enum MHD_Result gsp_http__reply(struct gsp_http__exchange *call);
