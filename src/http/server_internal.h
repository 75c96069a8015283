/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_internal.h -- what the files of the HTTP server share.
 *
 * server.c    sockets, start and stop
 * request.c   one request from its head to its answer
 * guard.c     who may ask: token, Host, Origin, the peer's user; connections that take too long
 * reply.c     answers and streams as libmicrohttpd wants them
 *
 * Threads: a call belongs to the server thread of its connection, or to its job while it has one.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/mhd_lib.h"
#include "http/server.h"

#define GSP_HTTP_JOBS_MAX 32U

/* One connection, from accept to close. */
struct gsp_http__conn {
    struct gsp_http__conn *prev;
    struct gsp_http__conn *next;
    _Atomic int64_t since_ns; /* when we began to wait for a request; 0: one is being answered */
    int fd;                   /* borrowed */
};

/* A stream that is being sent. */
struct gsp_http__stream {
    struct gsp_http__stream *prev;
    struct gsp_http__stream *next;
    struct gsp_http_server *server;
    struct MHD_Connection *connection;
    struct gsp_http_stream from;
    struct gsp_buf pending; /* read from the source, not yet sent */
    size_t sent;            /* of pending */
    bool ended;
    bool suspended; /* under the server's lock */
};

struct gsp_http_server {
    struct gsp_http_options options; /* its strings are the members below */
    char *bind;
    char *token;
    char *unix_path;
    struct MHD_Daemon *tcp;
    struct MHD_Daemon *local; /* the unix socket's */
    int tcp_fd;
    int local_fd;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct gsp_http__conn *conns;
    struct gsp_http__stream *streams;
    uint64_t wake_seq;
    unsigned conn_count;
    unsigned job_count;
    pthread_t watcher; /* ends connections that take too long */
    uint16_t port;
    bool has_watcher;
    bool has_lock;
    bool stopping;
};

/* Why a request is not handled; status 0: it is. */
struct gsp_http__refusal {
    int status;
    const char *code;
    const char *message;
    const char *hint;
};

/* One request. */
struct gsp_http__call {
    struct gsp_http_server *server;
    struct MHD_Connection *connection;
    struct gsp_http__conn *conn;
    struct gsp_http_request request;
    struct gsp_http__refusal refusal;
    struct gsp_buf body;
    uint64_t received; /* bytes of the body, kept or not */
    struct gsp_http_answer answer;
    bool answered; /* answer is filled */
};

/* request.c */
enum MHD_Result gsp_http__on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *data_len, void **state);
void gsp_http__on_completed(void *cls, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode why);

/* guard.c */
void gsp_http__check(struct gsp_http__call *call);
void gsp_http__on_connection(void *cls, struct MHD_Connection *connection, void **conn,
                             enum MHD_ConnectionNotificationCode what);
/* A thread: until the server stops. */
void *gsp_http__watch(void *server);
/* Whether an address needs no token: only this machine can reach it. */
bool gsp_http__is_loopback(const char *address);

/* reply.c */
enum MHD_Result gsp_http__reply(struct gsp_http__call *call);
