/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes_internal.h -- the table of routes, the functions that answer them and their helpers.
 *
 * /openapi.json is generated from the same table.
 *
 * Threads: the table is constant; a call belongs to its thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "daemon/daemon_internal.h"
#include "http/body.h"
#include "http/server.h"

#define GSP_CAPTURE_MAX 512U
#define GSP_FORM_FIELD  "code=" /* the start of the form of the page */
#define GSP_NAME_BYTES  256U    /* of a session name, with the NUL */

struct gsp_route_call {
    struct gsp_daemon *daemon;
    const struct gsp_http_request *request;
    struct gsp_body *body;         /* NULL if the route has none; borrowed */
    char capture[GSP_CAPTURE_MAX]; /* the text at {name} or {pid} */
};

typedef void gsp_route_fn(struct gsp_route_call *call, struct gsp_http_answer *answer);

/* What a client must have shown, by rising demand. docs/security.md has the table. */
enum gsp_route_needs {
    GSP_NEEDS_UNKNOWN, /* not declared: no client may send it */
    GSP_NEEDS_NOTHING, /* also without the token of the daemon */
    GSP_NEEDS_ACCESS,  /* the token, if the daemon has one */
    GSP_NEEDS_TRUST,   /* the token or the owner's socket, even if the daemon has no token */
    GSP_NEEDS_CONTROL, /* the same; with the token also --allow-control */
};

struct gsp_route {
    const char *method;
    const char *path; /* "/profiling/sessions/{name}" */
    gsp_route_fn *run;
    const char *summary;
    const char *body;    /* JSON Schema of the request body; NULL: none is read */
    const char *query;   /* names of query parameters, separated by spaces; NULL: none */
    const char *content; /* media type of the answer; NULL: application/json */
    const char *schema;  /* JSON Schema of the answer; NULL: any object */
    const char *errors;  /* statuses other than 200 and those of needs, separated by spaces */
    enum gsp_route_needs needs;
    bool is_slow;    /* runs in its own thread */
    bool is_vital;   /* answered even if too many connections are open */
    bool reads_form; /* the body may also be the form of a page, and then is not parsed */
};

/* The last row has no method. */
extern const struct gsp_route gsp_routes[];

/* The files schemas/NAME.json. */
extern const char gsp_daemon__start_body[];
extern const char gsp_daemon__stop_body[];
extern const char gsp_daemon__query_body[];
extern const char gsp_daemon__record_body[];
extern const char gsp_daemon__empty_body[];
extern const char gsp_daemon__login_body[];
extern const char gsp_daemon__sessions_schema[];
extern const char gsp_daemon__error_schema[];

/* "access", "trust", ... */
const char *gsp_daemon__routes_needs_name(enum gsp_route_needs needs);
/* Returns whether the client has shown enough. Otherwise answers with 401 or 403. For needs that
 * depend on the parameters of a request. */
bool gsp_daemon__routes_allow(const struct gsp_route_call *call, enum gsp_route_needs needs,
                              struct gsp_http_answer *answer);
/* Answers with an error. hint NULL: the hint for its code, if there is one. */
void gsp_daemon__routes_fail(struct gsp_http_answer *answer, const struct gsp_err *err,
                             const char *hint);
/* Local time with its zone: "2024-01-15T10:30:00.250+01:00". */
void gsp_daemon__routes_time(struct gsp_json *json, int64_t ts_ns);
/* Reads an optional number of the body. Returns false, with an error in *answer, if it is not a
 * number in [min, max]. */
bool gsp_daemon__routes_number(const struct gsp_route_call *call, const char *name, double min,
                               double max, double *out, struct gsp_http_answer *answer);
/* Reads the pid of the path. Returns false, with an error in *answer, if it is not a pid. */
bool gsp_daemon__routes_pid(const struct gsp_route_call *call, int32_t *out,
                            struct gsp_http_answer *answer);

/* Reads an optional session name of the body. Returns 1, or 0 if it is missing. Fails with USAGE.
 */
GSP_MUST_CHECK int gsp_daemon__routes_name(const struct gsp_body *body, const char *key,
                                           char out[GSP_NAME_BYTES], struct gsp_err *err);

/* routes_status.c */
gsp_route_fn gsp_daemon__route_status;
gsp_route_fn gsp_daemon__route_clients;
gsp_route_fn gsp_daemon__route_latest;
gsp_route_fn gsp_daemon__route_health;
gsp_route_fn gsp_daemon__route_ready;
/* routes_page.c */
gsp_route_fn gsp_daemon__route_root;
gsp_route_fn gsp_daemon__route_login;
gsp_route_fn gsp_daemon__route_login_code;
/* routes_sessions.c */
gsp_route_fn gsp_daemon__route_sessions;
gsp_route_fn gsp_daemon__route_start;
gsp_route_fn gsp_daemon__route_stop;
gsp_route_fn gsp_daemon__route_session;
gsp_route_fn gsp_daemon__route_download;
gsp_route_fn gsp_daemon__route_delete;
/* routes_control.c */
gsp_route_fn gsp_daemon__route_config;
gsp_route_fn gsp_daemon__route_put_config;
gsp_route_fn gsp_daemon__route_targets;
gsp_route_fn gsp_daemon__route_attach;
gsp_route_fn gsp_daemon__route_detach;
gsp_route_fn gsp_daemon__route_dump;
gsp_route_fn gsp_daemon__route_record;
gsp_route_fn gsp_daemon__route_flamegraph;
gsp_route_fn gsp_daemon__route_query;
/* prometheus.c, stream.c, openapi.c */
gsp_route_fn gsp_daemon__route_prometheus;
gsp_route_fn gsp_daemon__route_stream;
gsp_route_fn gsp_daemon__route_openapi;

/* A session as a JSON object. */
void gsp_daemon__routes_session(struct gsp_json *json, const struct gsp_session *session);
