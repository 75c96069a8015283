/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "daemon/routes_internal.h"

/* Names of active sessions that an error lists. */
#define NAMES_SHOWN 20U

/* The members of an open object. */
static void put_session(struct gsp_json *json, const struct gsp_session *session)
{
    gsp_json_put_str(json, "name", session->name);
    gsp_json_put_bool(json, "is_active", session->active);
    gsp_json_key(json, "start_time");
    gsp_routes__time(json, session->start_ns);
    gsp_json_key(json, "end_time");
    if (session->end_ns)
        gsp_routes__time(json, session->end_ns);
    else
        gsp_json_null(json);
    gsp_json_put_u64(json, "frame_count", session->frame_count);
    gsp_json_put_str(json, "output_file", session->file);
    gsp_json_put_u64(json, "stack_files", session->stack_files);
    gsp_json_put_u64(json, "stack_gaps", session->stack_gaps);
    gsp_json_key(json, "freq_ms");
    if (session->period_ns)
        gsp_json_f64(json, (double)session->period_ns / (double)GSP_NS_PER_MS);
    else
        gsp_json_null(json);
    gsp_json_key(json, "labels");
    gsp_json_raw(json, session->labels.len ? session->labels : gsp_sv_of("{}"));
    gsp_json_put_bool(json, "failed", session->failed);
    gsp_json_put_str(json, "error", session->error[0] ? session->error : NULL);
}

void gsp_routes__session(struct gsp_json *json, const struct gsp_session *session)
{
    gsp_json_obj_begin(json);
    put_session(json, session);
    gsp_json_obj_end(json);
}

/* The labels of one session, in room. */
static void add_labels(struct gsp_daemon *daemon, struct gsp_session *session, struct gsp_buf *room)
{
    gsp_sessions_labels(daemon->sessions, session->id, room);
    session->labels = room->failed ? (struct gsp_sv){NULL, 0} : gsp_buf_sv(room);
}

void gsp_route_sessions(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session *all = NULL;
    size_t count = 0;
    size_t active = 0;
    struct gsp_err err = {0};
    if (gsp_sessions_list(call->daemon->sessions, &all, &count, &err) < 0) {
        gsp_routes__fail(answer, &err, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++)
        active += all[i].active;
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_u64(&json, "total_sessions", count);
    gsp_json_put_u64(&json, "active_sessions", active);
    gsp_json_key(&json, "sessions");
    gsp_json_arr_begin(&json);
    for (size_t i = 0; i < count; i++)
        gsp_routes__session(&json, &all[i]);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    free(all);
}

/* What a start wants beside what sessions know. */
struct start {
    struct gsp_session_start order;
    char name[256];
    struct gsp_buf labels;
    struct gsp_http_body_ints pids;
    int32_t *pids32;
    bool bad_name; /* the name is why it cannot be */
};

static void start_free(struct start *start)
{
    gsp_buf_free(&start->labels);
    free(start->pids.at);
    free(start->pids32);
}

/* A name of the body, as text that ends with a NUL.  1: there, 0: not; negative: cannot be one. */
static int read_name(const struct gsp_body *body, const char *key, char out[256],
                     struct gsp_err *err)
{
    struct gsp_sv name = {0};
    int rc = gsp_http_body_text(body, key, &name, err);
    if (rc <= 0)
        return rc;
    rc = gsp_session_name_check(name, err);
    if (rc < 0)
        return rc;
    if (name.len >= 256)
        return gsp_err_set(err, GSP_E_USAGE, 0, "the name is too long");
    memcpy(out, name.p, name.len);
    out[name.len] = '\0';
    return 1;
}

static int read_start(const struct gsp_body *body, struct start *out, struct gsp_err *err)
{
    int rc = read_name(body, "name", out->name, err);
    out->bad_name = rc < 0;
    if (rc == 1)
        out->order.name = out->name;
    if (rc >= 0)
        rc = gsp_http_body_object(body, "labels", &out->labels, err);
    if (rc >= 0)
        rc = gsp_http_body_ints(body, "pids", 1, INT32_MAX, &out->pids, err);
    if (rc >= 0)
        rc = gsp_http_body_bool(body, "stacks", &out->order.stacks, err);
    if (rc >= 0)
        rc = gsp_http_body_bool(body, "force", &out->order.force, err);
    if (rc >= 0)
        rc = gsp_http_body_bool(body, "native", &out->order.stack_native, err);
    if (rc < 0)
        return rc;
    out->order.labels = gsp_buf_sv(&out->labels);
    out->pids32 = calloc(out->pids.count ? out->pids.count : 1, sizeof(*out->pids32));
    if (!out->pids32)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for pids");
    for (size_t i = 0; i < out->pids.count; i++)
        out->pids32[i] = (int32_t)out->pids.at[i];
    out->order.pids = out->pids32;
    out->order.pid_count = out->pids.count;
    if (out->order.stacks && !out->pids.count)
        return gsp_err_set(err, GSP_E_USAGE, 0, "stacks needs pids: whose stacks to keep");
    return GSP_OK;
}

/* One recording for each process, beside the session's file. */
static int record_stacks(struct gsp_daemon *daemon, const struct start *start,
                         const struct gsp_session *session, struct gsp_err *err)
{
    for (size_t i = 0; i < start->order.pid_count; i++) {
        char name[320];
        char file[300];
        const int32_t pid = start->pids32[i];
        gsp_stacks_stem(session->file, start->order.pid_count, pid, name);
        const struct gsp_recording_order order = {.pid = pid,
                                                  .rate_hz = start->order.stack_rate_hz,
                                                  .session = session->name,
                                                  .stem = name,
                                                  .native = start->order.stack_native};
        int rc = gsp_targets_record(daemon->targets, &order, file, err);
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

/* Processes that are not there have no values; nobody should wait for them. */
static void put_missing(struct gsp_json *json, const struct start *start)
{
    gsp_json_key(json, "missing_pids");
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < start->order.pid_count; i++)
        if (!gsp_targets_runs(start->pids32[i]))
            gsp_json_i64(json, start->pids32[i]);
    gsp_json_arr_end(json);
}

static void tell_started(const struct gsp_daemon *daemon, const struct start *start,
                         const struct gsp_session *session, struct gsp_http_answer *answer)
{
    struct gsp_json json;
    gsp_auto_buf text = {0};
    gsp_buf_printf(&text, "Session %s has begun", session->name);
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "success", true);
    gsp_json_put_sv(&json, "message", gsp_buf_sv(&text));
    gsp_json_put_str(&json, "name", session->name);
    gsp_json_put_str(&json, "output_file", session->file);
    gsp_json_put_str(&json, "output_dir", daemon->settings.output_dir);
    put_missing(&json, start);
    gsp_json_key(&json, "session");
    gsp_routes__session(&json, session);
    gsp_json_obj_end(&json);
}

/* The session and its recordings: all of it, or nothing. */
static int begin(struct gsp_daemon *daemon, const struct start *start, struct gsp_session *out,
                 struct gsp_err *err)
{
    int rc = gsp_sessions_start(daemon->sessions, &start->order, out, err);
    if (rc < 0 || !start->order.stacks)
        return rc;
    rc = record_stacks(daemon, start, out, err);
    if (rc < 0) {
        gsp_targets_end_session(daemon->targets, out->name);
        gsp_ignore(gsp_sessions_delete(daemon->sessions, out->name, NULL)); /* then it stays */
    }
    return rc;
}

void gsp_route_start(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    struct start start = {.order = {.stack_rate_hz = GSP_STACK_RATE_HZ}};
    struct gsp_session session;
    struct gsp_err err = {0};
    const char *hint = NULL;
    if (!gsp_routes__number(call, "rate", 1, 10000, &start.order.stack_rate_hz, answer))
        return;
    int rc = read_start(call->body, &start, &err);
    if (rc == GSP_OK && start.order.stacks && !daemon->settings.allow_control) {
        hint = "start the daemon with --allow-control";
        rc = gsp_err_set(&err, GSP_E_PERM, 0, "this daemon does not look into processes");
        gsp_err_set_reason(&err, GSP_REASON_CONTROL);
    }
    if (rc == GSP_OK)
        rc = begin(daemon, &start, &session, &err);
    if (rc == GSP_E_EXISTS)
        hint = "stop it first, or take another name";
    if (start.bad_name)
        hint = "a name is text of at most 200 bytes without '/', control characters or a dot first";
    if (rc < 0) {
        gsp_routes__fail(answer, &err, hint);
    } else {
        session.labels = start.order.labels;
        tell_started(daemon, &start, &session, answer);
        if (start.order.pid_count)
            gsp_daemon__rewatch(daemon);
        gsp_daemon__ask_frame(daemon);
    }
    gsp_daemon__touch(daemon);
    start_free(&start);
}

/* 404 with the names that could have been meant. */
static void tell_unknown(struct gsp_daemon *daemon, const char *name,
                         struct gsp_http_answer *answer)
{
    struct gsp_session *all = NULL;
    size_t count = 0;
    struct gsp_json json;
    gsp_auto_buf message = {0};
    gsp_auto_buf hint = {0};
    gsp_ignore(gsp_sessions_list(daemon->sessions, &all, &count, NULL)); /* then none is listed */
    gsp_buf_printf(&message, "no session %s is active", name);
    for (size_t i = 0; i < count && i < NAMES_SHOWN && all[i].active; i++)
        gsp_buf_printf(&hint, "%s%s", i ? ", " : "active: ", all[i].name);
    if (!hint.len)
        gsp_buf_puts(&hint, "no session is active");
    answer->status = 404;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_key(&json, "error");
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "code", gsp_err_name(GSP_E_NOFILE));
    gsp_json_put_sv(&json, "message", gsp_buf_sv(&message));
    gsp_json_put_sv(&json, "hint", gsp_buf_sv(&hint));
    gsp_json_key(&json, "active_sessions");
    gsp_json_arr_begin(&json);
    for (size_t i = 0; i < count && all[i].active; i++)
        gsp_json_str(&json, all[i].name);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    gsp_json_obj_end(&json);
    free(all);
}

static int stop_one(struct gsp_daemon *daemon, const char *name, struct gsp_session *out,
                    struct gsp_err *err)
{
    gsp_targets_end_session(daemon->targets, name);
    return gsp_sessions_stop(daemon->sessions, name, out, err);
}

static void tell_stopped(struct gsp_json *json, const struct gsp_daemon *daemon,
                         const char *message, const char *file)
{
    gsp_json_obj_begin(json);
    gsp_json_put_bool(json, "success", true);
    gsp_json_put_str(json, "message", message);
    gsp_json_put_str(json, "output_file", file);
    gsp_json_put_str(json, "output_dir", daemon->settings.output_dir);
    gsp_json_key(json, "stopped");
    gsp_json_arr_begin(json);
}

static void stop_named(struct gsp_daemon *daemon, const char *name, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    struct gsp_json json;
    struct gsp_err err = {0};
    gsp_auto_buf message = {0};
    gsp_auto_buf labels = {0};
    gsp_daemon__last_frame(daemon, name);
    int rc = stop_one(daemon, name, &session, &err);
    if (rc == GSP_E_NOFILE) {
        tell_unknown(daemon, name, answer);
        return;
    }
    if (rc < 0) {
        gsp_routes__fail(answer, &err, "the session is kept; its file is tried again");
        return;
    }
    gsp_buf_printf(&message, "Session %s has ended", name);
    gsp_json_init(&json, &answer->body);
    tell_stopped(&json, daemon, gsp_buf_cstr(&message), session.file);
    add_labels(daemon, &session, &labels);
    gsp_routes__session(&json, &session);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
}

/* All get the order before one is waited for, so that they end together. */
static void end_recordings(void *ctx, const struct gsp_session *all, size_t count)
{
    struct gsp_targets *targets = ctx;
    for (size_t i = 0; i < count; i++)
        gsp_targets_stop_session(targets, all[i].name);
    for (size_t i = 0; i < count; i++)
        gsp_targets_end_session(targets, all[i].name);
}

static void stop_all(struct gsp_daemon *daemon, struct gsp_http_answer *answer)
{
    struct gsp_session *all = NULL;
    size_t stopped = 0;
    struct gsp_err err = {0};
    const struct gsp_sessions_ended ended = {end_recordings, daemon->targets};
    gsp_daemon__last_frame(daemon, NULL);
    if (gsp_sessions_stop_all(daemon->sessions, &ended, &all, &stopped, &err) < 0) {
        gsp_auto_buf hint = {0};
        gsp_buf_printf(&hint, "%zu have ended; the others are kept, their files are tried again",
                       stopped);
        gsp_routes__fail(answer, &err, gsp_buf_cstr(&hint));
        free(all);
        return;
    }
    struct gsp_json json;
    gsp_auto_buf message = {0};
    if (stopped)
        gsp_buf_printf(&message, "%zu session%s ended", stopped, stopped == 1 ? "" : "s");
    else
        gsp_buf_puts(&message, "No session was active");
    gsp_json_init(&json, &answer->body);
    tell_stopped(&json, daemon, gsp_buf_cstr(&message), stopped == 1 ? all[0].file : NULL);
    for (size_t i = 0; i < stopped; i++)
        gsp_routes__session(&json, &all[i]);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    free(all);
}

void gsp_route_stop(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    char name[256];
    struct gsp_err err = {0};
    int rc = read_name(call->body, "name", name, &err);
    if (rc < 0)
        gsp_routes__fail(answer, &err, NULL);
    else if (rc == 0)
        stop_all(call->daemon, answer);
    else
        stop_named(call->daemon, name, answer);
    gsp_daemon__touch(call->daemon);
}

static bool find_session(struct gsp_route_call *call, struct gsp_session *out,
                         struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    if (gsp_sessions_find(call->daemon->sessions, call->capture, out, &err) == GSP_OK)
        return true;
    gsp_routes__fail(answer, &err, "GET /profiling/sessions lists all");
    return false;
}

void gsp_route_session(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    struct gsp_json json;
    gsp_auto_buf labels = {0};
    if (!find_session(call, &session, answer))
        return;
    add_labels(call->daemon, &session, &labels);
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    put_session(&json, &session);
    gsp_json_key(&json, "stacks");
    gsp_sessions_stacks_json(call->daemon->sessions, session.name, &json);
    gsp_json_obj_end(&json);
}

/* ?stacks=N: the N-th of the session's files of stacks. */
static bool find_stacks(struct gsp_route_call *call, const char *name, const char *number,
                        char file[300])
{
    int64_t n = 1;
    return (!number[0] || gsp_parse_i64(number, 1, INT32_MAX, &n, NULL) == GSP_OK) &&
           gsp_sessions_stacks_file(call->daemon->sessions, name, 0, (size_t)n, file);
}

void gsp_route_download(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    char file[300];
    gsp_auto_buf path = {0};
    if (!find_session(call, &session, answer))
        return;
    memcpy(file, session.file, sizeof(file));
    const char *stacks = gsp_http_query(call->request, "stacks");
    if (stacks && !find_stacks(call, session.name, stacks, file)) {
        gsp_http_answer_error(answer, 404, "NOFILE", "the session has no such file of stacks",
                              "GET /profiling/sessions/NAME lists them");
        return;
    }
    if (session.active && !stacks) {
        gsp_http_answer_error(answer, 409, "STARTING", "the session is still active",
                              "stop it first");
        return;
    }
    gsp_buf_printf(&path, "%s/%s", call->daemon->settings.output_dir, file);
    const char *text = gsp_buf_cstr(&path);
    answer->file_fd = text ? open(text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (answer->file_fd < 0) {
        gsp_http_answer_error(answer, 404, "NOFILE", "the file of the session is not there",
                              session.error[0] ? session.error : NULL);
        return;
    }
    answer->file_name = strdup(file);
    if (stacks)
        answer->content_type = "application/octet-stream";
}

void gsp_route_delete(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    struct gsp_json json;
    struct gsp_err err = {0};
    if (!find_session(call, &session, answer))
        return;
    /* What is being collected is not thrown away by one request. */
    if (session.active) {
        gsp_http_answer_error(answer, 409, gsp_err_name(GSP_E_EXISTS),
                              "the session is still active", "stop it first");
        return;
    }
    gsp_targets_end_session(call->daemon->targets, session.name);
    if (gsp_sessions_delete(call->daemon->sessions, session.name, &err) < 0) {
        gsp_routes__fail(answer, &err, NULL);
        return;
    }
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "success", true);
    gsp_json_put_str(&json, "message", "the session is forgotten");
    gsp_json_put_str(&json, "name", session.name);
    gsp_json_obj_end(&json);
    gsp_daemon__rewatch(call->daemon);
    gsp_daemon__touch(call->daemon);
}
