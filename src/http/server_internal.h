/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_internal.h -- types and functions shared by the files of the HTTP server.
 *
 * server.c    sockets, start and stop
 * request.c   one request, from its headers to its answer
 * guard.c     access checks: token, Host, Origin, the peer's user; slow connections
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

/* One connection, from accept to close. */
struct gsp_http__conn {
    struct gsp_http__conn *prev;
    struct gsp_http__conn *next;
    _Atomic int64_t since_ns; /* start of the wait for a request; 0: one is being answered */
    int fd;                   /* owned by libmicrohttpd */
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
    bool ended;
    bool suspended;
};

struct gsp_http_server {
    struct gsp_http_options options; /* use the copies of its strings below */
    char *bind;
    char *token;
    char *unix_path;
    struct MHD_Daemon *tcp;
    struct MHD_Daemon *local; /* for the unix socket */
    int tcp_fd;
    int local_fd;
    pthread_t watcher; /* ends slow connections */
    uint16_t port;
    bool has_watcher;
    bool has_cond;
    struct gsp_lock lock;
    pthread_cond_t changed; /* job_count or stopping changed */
    struct gsp_http__conn *conns GSP_GUARDED_BY(lock);
    struct gsp_http__stream *streams GSP_GUARDED_BY(lock);
    uint64_t wake_seq GSP_GUARDED_BY(lock); /* calls of gsp_http_wake() */
    unsigned conn_count GSP_GUARDED_BY(lock);
    unsigned job_count GSP_GUARDED_BY(lock);
    bool stopping GSP_GUARDED_BY(lock);
};

/* Why a request is refused; status 0: it is not. */
struct gsp_http__refusal {
    int status;
    const char *code;
    const char *message;
};

/* One request. */
struct gsp_http__exchange {
    struct gsp_http_server *server;
    struct MHD_Connection *connection;
    struct gsp_http__conn *conn;
    struct gsp_http_request request;
    struct gsp_http__refusal refusal;
    struct gsp_buf body;
    uint64_t received; /* bytes of the body, including discarded ones */
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
/* Sets call->refusal if the request is not allowed. */
void gsp_http__access_check(struct gsp_http__exchange *call);
void gsp_http__on_connection(void *cls, struct MHD_Connection *connection, void **conn,
                             enum MHD_ConnectionNotificationCode what);
/* Main function of the watcher thread. */
void *gsp_http__watcher_run(void *server);
/* Whether only this machine can connect to an address. */
bool gsp_http__is_loopback(const char *address);

/* reply.c */
/* Sends call->answer. */
enum MHD_Result gsp_http__reply(struct gsp_http__exchange *call);
