/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/time.h"
#include "daemon/hints.h"
#include "daemon/routes_internal.h"
#include "export/format.h"
#include "frames/session_write.h"

#define STACKS_HEAD_BYTES 32

/* The members of an open object. */
static void put_session(struct gsp_json *json, const struct gsp_session *session)
{
    gsp_json_put_str(json, "name", session->name);
    gsp_json_put_bool(json, "is_active", session->active);
    gsp_json_key(json, "start_time");
    gsp_daemon__routes_time(json, session->start_ns);
    gsp_json_key(json, "end_time");
    if (session->end_ns)
        gsp_daemon__routes_time(json, session->end_ns);
    else
        gsp_json_null(json);
    gsp_json_put_u64(json, "frame_count", session->frame_count);
    gsp_json_put_str(json, "output_file", session->file);
    gsp_json_put_u64(json, "stack_files", session->stack_files);
    gsp_json_put_u64(json, "stack_gaps", session->stack_gaps);
    if (gsp_json_key_or_null(json, "freq_ms", session->period_ns))
        gsp_json_f64(json, (double)session->period_ns / (double)GSP_NS_PER_MS);
    gsp_json_put_raw(json, "labels", session->labels.len ? session->labels : gsp_sv_of("{}"));
    gsp_json_put_bool(json, "failed", session->failed);
    gsp_json_put_str(json, "error", session->error[0] ? session->error : NULL);
}

void gsp_daemon__routes_session(struct gsp_json *json, const struct gsp_session *session)
{
    gsp_json_obj_begin(json);
    put_session(json, session);
    gsp_json_obj_end(json);
}

/* Sets the labels of a session. They borrow from buf. */
static void add_labels(struct gsp_daemon *daemon, struct gsp_session *session, struct gsp_buf *buf)
{
    gsp_daemon__sessions_labels(daemon->sessions, session->id, buf);
    session->labels = buf->failed ? (struct gsp_sv){NULL, 0} : gsp_buf_sv(buf);
}

void gsp_daemon__route_sessions(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session *all = NULL;
    size_t count = 0;
    size_t active = 0;
    struct gsp_err err = {0};
    if (gsp_daemon__sessions_list(call->daemon->sessions, &all, &count, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++)
        active += all[i].active;
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_u64(&json, "total_sessions", count);
    gsp_json_put_u64(&json, "active_sessions", active);
    gsp_json_put_arr_begin(&json, "sessions");
    for (size_t i = 0; i < count; i++)
        gsp_daemon__routes_session(&json, &all[i]);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    free(all);
}

/* A request to start a session, with the memory that `order` borrows from. */
struct start {
    struct gsp_session_start order;
    char name[GSP_NAME_BYTES];
    struct gsp_buf labels;
    struct gsp_http_body_ints pids;
    int32_t *pids32;
    bool bad_name; /* the name is invalid */
};

static void start_free(struct start *start)
{
    gsp_buf_free(&start->labels);
    free(start->pids.at);
    free(start->pids32);
}

static int read_start(const struct gsp_body *body, struct start *out, struct gsp_err *err)
{
    int rc = gsp_daemon__routes_name(body, "name", out->name, err);
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
        return gsp_err_nomem(err);
    for (size_t i = 0; i < out->pids.count; i++)
        out->pids32[i] = (int32_t)out->pids.at[i];
    out->order.pids = out->pids32;
    out->order.pid_count = out->pids.count;
    if (out->order.stacks && !out->pids.count)
        return gsp_err_set(err, GSP_E_USAGE, 0, "stacks needs pids");
    return GSP_OK;
}

/* Starts a recording for each process, next to the session's file. */
static int record_stacks(struct gsp_daemon *daemon, const struct start *start,
                         const struct gsp_session *session, struct gsp_err *err)
{
    for (size_t i = 0; i < start->order.pid_count; i++) {
        char name[320];
        char file[300];
        const int32_t pid = start->pids32[i];
        gsp_daemon__stacks_stem(session->file, start->order.pid_count, pid, name);
        const struct gsp_recording_request order = {.pid = pid,
                                                    .rate_hz = start->order.stack_rate_hz,
                                                    .session = session->name,
                                                    .stem = name,
                                                    .native = start->order.stack_native};
        int rc = gsp_daemon__targets_record(daemon->targets, &order, file, err);
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

/* Lists processes that do not exist, because no values will come from them. */
static void put_missing(struct gsp_json *json, const struct start *start)
{
    gsp_json_put_arr_begin(json, "missing_pids");
    for (size_t i = 0; i < start->order.pid_count; i++)
        if (!gsp_daemon__process_exists(start->pids32[i]))
            gsp_json_i64(json, start->pids32[i]);
    gsp_json_arr_end(json);
}

static void put_started(const struct gsp_daemon *daemon, const struct start *start,
                        const struct gsp_session *session, struct gsp_http_answer *answer)
{
    struct gsp_json json;
    gsp_auto_buf text = {0};
    gsp_buf_printf(&text, "Session %s has started", session->name);
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "success", true);
    gsp_json_put_sv(&json, "message", gsp_buf_sv(&text));
    gsp_json_put_str(&json, "name", session->name);
    gsp_json_put_str(&json, "output_file", session->file);
    gsp_json_put_str(&json, "output_dir", daemon->fixed->output_dir);
    put_missing(&json, start);
    gsp_json_key(&json, "session");
    gsp_daemon__routes_session(&json, session);
    gsp_json_obj_end(&json);
}

/* Starts the session and its recordings, or neither. */
static int start_all(struct gsp_daemon *daemon, const struct start *start, struct gsp_session *out,
                     struct gsp_err *err)
{
    int rc = gsp_daemon__sessions_start(daemon->sessions, &start->order, out, err);
    if (rc < 0 || !start->order.stacks)
        return rc;
    rc = record_stacks(daemon, start, out, err);
    if (rc < 0) {
        gsp_daemon__targets_end_session(daemon->targets, out->name);
        gsp_ignore(gsp_daemon__sessions_delete(daemon->sessions, out->name,
                                               NULL)); /* on failure it stays */
    }
    return rc;
}

void gsp_daemon__route_start(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    struct start start = {.order = {.stack_rate_hz = GSP_STACK_RATE_HZ}};
    struct gsp_session session;
    struct gsp_err err = {0};
    const char *hint = NULL;
    if (!gsp_daemon__routes_number(call, "rate", 1, 10000, &start.order.stack_rate_hz, answer))
        return;
    start.order.anonymous = call->request->trust == GSP_HTTP_ANONYMOUS;
    int rc = read_start(call->body, &start, &err);
    if (rc == GSP_OK &&
        ((start.order.force && !gsp_daemon__routes_allow(call, GSP_NEEDS_TRUST, answer)) ||
         (start.order.pid_count && !gsp_daemon__routes_allow(call, GSP_NEEDS_CONTROL, answer)))) {
        start_free(&start);
        return;
    }
    if (rc == GSP_OK)
        rc = start_all(daemon, &start, &session, &err);
    if (rc == GSP_E_EXISTS)
        hint = gsp_daemon__hint(GSP_HINT_NEW_NAME);
    if (err.reason == GSP_REASON_SHARE)
        hint = gsp_daemon__hint(GSP_HINT_SHARE);
    if (start.bad_name)
        hint = gsp_daemon__hint(GSP_HINT_SESSION_NAME);
    if (rc < 0) {
        gsp_daemon__routes_fail(answer, &err, hint);
    } else {
        session.labels = start.order.labels;
        put_started(daemon, &start, &session, answer);
        if (start.order.pid_count)
            gsp_daemon__watched_update(daemon);
        gsp_daemon__frame_request(daemon);
    }
    gsp_daemon__status_changed(daemon);
    start_free(&start);
}

/* 404 with the names of the active sessions. */
static void fail_unknown(struct gsp_daemon *daemon, const char *name,
                         struct gsp_http_answer *answer)
{
    struct gsp_session *all = NULL;
    size_t count = 0;
    struct gsp_json json;
    gsp_auto_buf message = {0};
    gsp_auto_buf hint = {0};
    gsp_ignore(gsp_daemon__sessions_list(daemon->sessions, &all, &count,
                                         NULL)); /* on failure none is listed */
    gsp_buf_printf(&message, "session %s is not active", name);
    gsp_daemon__hint_active(all, count, &hint);
    answer->status = 404;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_obj_begin(&json, "error");
    gsp_json_put_str(&json, "code", gsp_err_name(GSP_E_NOFILE));
    gsp_json_put_sv(&json, "message", gsp_buf_sv(&message));
    gsp_json_put_sv(&json, "hint", gsp_buf_sv(&hint));
    gsp_json_put_arr_begin(&json, "active_sessions");
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
    gsp_daemon__targets_end_session(daemon->targets, name);
    return gsp_daemon__sessions_stop(daemon->sessions, name, out, err);
}

static void put_stopped(struct gsp_json *json, const struct gsp_daemon *daemon, const char *message,
                        const char *file)
{
    gsp_json_obj_begin(json);
    gsp_json_put_bool(json, "success", true);
    gsp_json_put_str(json, "message", message);
    gsp_json_put_str(json, "output_file", file);
    gsp_json_put_str(json, "output_dir", daemon->fixed->output_dir);
    gsp_json_put_arr_begin(json, "stopped");
}

static void stop_named(struct gsp_daemon *daemon, const char *name, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    struct gsp_json json;
    struct gsp_err err = {0};
    gsp_auto_buf message = {0};
    gsp_auto_buf labels = {0};
    gsp_daemon__frame_ensure_last(daemon, name);
    int rc = stop_one(daemon, name, &session, &err);
    if (rc == GSP_E_NOFILE) {
        fail_unknown(daemon, name, answer);
        return;
    }
    if (rc < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_FILE_RETRY));
        return;
    }
    gsp_buf_printf(&message, "Session %s has stopped", name);
    gsp_json_init(&json, &answer->body);
    put_stopped(&json, daemon, gsp_buf_cstr(&message), session.file);
    add_labels(daemon, &session, &labels);
    gsp_daemon__routes_session(&json, &session);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
}

/* Tells all recordings to stop before it waits for one, so that they end together. */
static void end_recordings(void *ctx, const struct gsp_session *all, size_t count)
{
    struct gsp_targets *targets = ctx;
    for (size_t i = 0; i < count; i++)
        gsp_daemon__targets_stop_session(targets, all[i].name);
    for (size_t i = 0; i < count; i++)
        gsp_daemon__targets_end_session(targets, all[i].name);
}

static void stop_all(struct gsp_daemon *daemon, struct gsp_http_answer *answer)
{
    struct gsp_session *all = NULL;
    size_t stopped = 0;
    struct gsp_err err = {0};
    const struct gsp_sessions_ended ended = {end_recordings, daemon->targets};
    gsp_daemon__frame_ensure_last(daemon, NULL);
    if (gsp_daemon__sessions_stop_all(daemon->sessions, &ended, &all, &stopped, &err) < 0) {
        gsp_auto_buf hint = {0};
        gsp_daemon__hint_partly_stopped(stopped, &hint);
        gsp_daemon__routes_fail(answer, &err, gsp_buf_cstr(&hint));
        free(all);
        return;
    }
    struct gsp_json json;
    gsp_auto_buf message = {0};
    if (stopped)
        gsp_buf_printf(&message, "%zu session%s stopped", stopped, stopped == 1 ? "" : "s");
    else
        gsp_buf_puts(&message, "No session was active");
    gsp_json_init(&json, &answer->body);
    put_stopped(&json, daemon, gsp_buf_cstr(&message), stopped == 1 ? all[0].file : NULL);
    for (size_t i = 0; i < stopped; i++)
        gsp_daemon__routes_session(&json, &all[i]);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    free(all);
}

void gsp_daemon__route_stop(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    char name[GSP_NAME_BYTES];
    struct gsp_err err = {0};
    int rc = gsp_daemon__routes_name(call->body, "name", name, &err);
    if (rc < 0)
        gsp_daemon__routes_fail(answer, &err, NULL);
    else if (rc == 0)
        stop_all(call->daemon, answer);
    else
        stop_named(call->daemon, name, answer);
    gsp_daemon__status_changed(call->daemon);
}

static bool find_session(struct gsp_route_call *call, struct gsp_session *out,
                         struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    if (gsp_daemon__sessions_find(call->daemon->sessions, call->capture, out, &err) == GSP_OK)
        return true;
    gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_SESSIONS));
    return false;
}

void gsp_daemon__route_session(struct gsp_route_call *call, struct gsp_http_answer *answer)
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
    gsp_daemon__sessions_stacks_json(call->daemon->sessions, session.name, &json);
    gsp_json_obj_end(&json);
}

/* ?stacks=N: the N-th stack file of the session. */
static bool find_stacks(struct gsp_route_call *call, const char *name, const char *number,
                        char file[300])
{
    int64_t n = 1;
    return (!number[0] || gsp_parse_i64(number, 1, INT32_MAX, &n, NULL) == GSP_OK) &&
           gsp_daemon__sessions_stacks_file(call->daemon->sessions, name, 0, (size_t)n, file);
}

/* Opens a file of the session. Returns -1 if it does not exist, or if another one has its name. */
static int open_file(const char *path, const char *name, bool is_stacks)
{
    char head[STACKS_HEAD_BYTES];
    gsp_auto_fd fd = gsp_file_open_regular(path);
    if (fd < 0)
        return -1;
    if (!is_stacks)
        return gsp_frames_session_fd_is(fd, name) ? gsp_fd_release(&fd) : -1;
    const ssize_t len = gsp_fd_read_at(fd, head, sizeof(head), 0);
    const struct gsp_format *format = gsp_export_format_find("gsp");
    const bool is_recording =
        len > 0 && format && format->sniff((struct gsp_sv){head, (size_t)len});
    return is_recording ? gsp_fd_release(&fd) : -1;
}

void gsp_daemon__route_download(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    char file[300];
    gsp_auto_buf path = {0};
    const char *stacks = gsp_http_query(call->request, "stacks");
    if ((stacks && !gsp_daemon__routes_allow(call, GSP_NEEDS_TRUST, answer)) ||
        !find_session(call, &session, answer))
        return;
    memcpy(file, session.file, sizeof(file));
    if (stacks && !find_stacks(call, session.name, stacks, file)) {
        gsp_http_answer_error(answer, 404, "NOFILE", "the session has no such stack file",
                              gsp_daemon__hint(GSP_HINT_STACK_FILES));
        return;
    }
    if (session.active && !stacks) {
        gsp_http_answer_error(answer, 409, "STARTING", "the session is still active",
                              gsp_daemon__hint(GSP_HINT_STOP_FIRST));
        return;
    }
    gsp_buf_printf(&path, "%s/%s", call->daemon->fixed->output_dir, file);
    const char *text = gsp_buf_cstr(&path);
    answer->file_fd = text ? open_file(text, session.name, stacks != NULL) : -1;
    if (answer->file_fd < 0) {
        gsp_http_answer_error(answer, 404, "NOFILE", "the file of the session does not exist",
                              session.error[0] ? session.error : NULL);
        return;
    }
    answer->file_name = strdup(file);
    if (stacks)
        answer->content_type = "application/octet-stream";
}

void gsp_daemon__route_delete(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    struct gsp_json json;
    struct gsp_err err = {0};
    if (!find_session(call, &session, answer))
        return;
    /* A single request must not discard a session that is still collecting. */
    if (session.active) {
        gsp_http_answer_error(answer, 409, gsp_err_name(GSP_E_EXISTS),
                              "the session is still active", gsp_daemon__hint(GSP_HINT_STOP_FIRST));
        return;
    }
    gsp_daemon__targets_end_session(call->daemon->targets, session.name);
    if (gsp_daemon__sessions_delete(call->daemon->sessions, session.name, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return;
    }
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "success", true);
    gsp_json_put_str(&json, "message", "the session is deleted");
    gsp_json_put_str(&json, "name", session.name);
    gsp_json_obj_end(&json);
    gsp_daemon__watched_update(call->daemon);
    gsp_daemon__status_changed(call->daemon);
}
