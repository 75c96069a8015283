/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "daemon/hints.h"
#include "daemon/query_input.h"
#include "daemon/query_worker.h"
#include "daemon/routes_internal.h"
#include "export/format.h"

#define QUERIES_MAX        4U
#define ANONYMOUS_MAX      2U /* of these queries */
#define DRAWINGS_MAX       2U
#define DUMPS_MAX          4U
#define DUMP_TIMEOUT_NS    (20 * GSP_NS_PER_S)
#define DUMP_BYTES_MAX     ((size_t)64 << 20)
#define DUMP_MEMORY        (UINT64_C(1) << 30)
#define DRAWING_TIMEOUT_NS (30 * GSP_NS_PER_S)
#define DRAWING_BYTES_MAX  (UINT64_C(64) << 20)
#define DRAWING_MEMORY     (UINT64_C(1) << 30)
#define RECORD_RATE_HZ     100.0
#define RECORD_S           10.0

static void read_settings(struct gsp_daemon *daemon, struct gsp_settings *out)
{
    out->fixed = *daemon->fixed;
    out->live = gsp_daemon__live_settings(daemon);
}

static void put_setting(struct gsp_json *json, const struct gsp_settings *settings, size_t i)
{
    const struct gsp_setting *about = gsp_daemon__setting_at(i);
    gsp_auto_buf name = {0};
    gsp_buf_printf(&name, GSP_SETTING_PREFIX "%s", about->name);
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "name", gsp_buf_sv(&name));
    gsp_json_key(json, "value");
    gsp_daemon__setting_json(settings, i, json);
    gsp_json_put_str(json, "type", about->type);
    gsp_json_put_str(json, "default", about->fallback);
    gsp_json_put_str(json, "origin",
                     gsp_daemon__setting_origin_name(gsp_daemon__setting_origin_of(settings, i)));
    gsp_json_put_bool(json, "mutable", gsp_daemon__setting_is_live(i));
    gsp_json_put_str(json, "description", about->doc);
    gsp_json_obj_end(json);
}

void gsp_daemon__route_config(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_settings settings;
    struct gsp_json json;
    read_settings(call->daemon, &settings);
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_obj_begin(&json, "config");
    for (size_t i = 0; gsp_daemon__setting_at(i); i++) {
        gsp_auto_buf name = {0};
        gsp_buf_printf(&name, GSP_SETTING_PREFIX "%s", gsp_daemon__setting_at(i)->name);
        gsp_json_keysv(&json, gsp_buf_sv(&name));
        gsp_daemon__setting_json(&settings, i, &json);
    }
    gsp_json_obj_end(&json);
    gsp_json_put_arr_begin(&json, "settings");
    for (size_t i = 0; gsp_daemon__setting_at(i); i++)
        put_setting(&json, &settings, i);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
}

/* Changes one setting in a copy. Returns false, with an error in *answer, if that is not possible.
 */
static bool change(struct gsp_settings *settings, struct gsp_sv name, struct gsp_sv value,
                   struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    gsp_auto_buf hint = {0};
    int i = gsp_daemon_setting_find(name);
    if (i < 0) {
        gsp_err_fill(&err, GSP_E_USAGE, 0, "no setting has the name %.*s",
                     (int)(name.len < 100 ? name.len : 100), name.p);
        gsp_daemon__hint_unknown_setting(name, &hint);
        gsp_daemon__routes_fail(answer, &err, gsp_buf_cstr(&hint));
        return false;
    }
    if (!gsp_daemon__setting_is_live((size_t)i)) {
        gsp_err_fill(&err, GSP_E_PERM, 0, "%s cannot change while the daemon runs",
                     gsp_daemon__setting_at((size_t)i)->name);
        gsp_daemon__hint_fixed_setting((size_t)i, &hint);
        gsp_daemon__routes_fail(answer, &err, gsp_buf_cstr(&hint));
        return false;
    }
    if (gsp_daemon_setting_set(settings, (size_t)i, value, GSP_FROM_REQUEST, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_SETTING_VALUE));
        return false;
    }
    return true;
}

/* Changes all settings of the request, or none. */
void gsp_daemon__route_put_config(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_settings settings;
    struct gsp_sv name;
    gsp_auto_buf value = {0};
    read_settings(call->daemon, &settings);
    for (size_t i = 0; gsp_http_body_member(call->body, i, &name, &value); i++) {
        if (!change(&settings, name, gsp_buf_sv(&value), answer))
            return;
        gsp_buf_clear(&value);
    }
    gsp_daemon_reload(call->daemon, &settings.live);
    gsp_daemon__route_config(call, answer);
}

void gsp_daemon__route_targets(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "allow_control", daemon->fixed->allow_control);
    gsp_json_put_arr_begin(&json, "watched");
    gsp_lock_take(&daemon->lock);
    for (size_t i = 0; i < daemon->watched_count; i++)
        gsp_json_i64(&json, daemon->watched[i]);
    gsp_lock_release(&daemon->lock);
    gsp_json_arr_end(&json);
    gsp_daemon__targets_json(daemon->targets, &json);
    gsp_json_obj_end(&json);
}

static void put_done(struct gsp_http_answer *answer, int32_t pid, const char *what)
{
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "success", true);
    gsp_json_put_i64(&json, "pid", pid);
    gsp_json_put_str(&json, "message", what);
    gsp_json_obj_end(&json);
}

void gsp_daemon__route_attach(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    int32_t pid = 0;
    if (!gsp_daemon__routes_pid(call, &pid, answer))
        return;
    if (gsp_daemon__targets_attach(call->daemon->targets, pid, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return;
    }
    gsp_daemon__watched_update(call->daemon);
    put_done(answer, pid, "the process is now watched");
}

void gsp_daemon__route_detach(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    int32_t pid = 0;
    if (!gsp_daemon__routes_pid(call, &pid, answer))
        return;
    if (gsp_daemon__targets_detach(call->daemon->targets, pid, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, "GET /targets lists those that are");
        return;
    }
    gsp_daemon__watched_update(call->daemon);
    put_done(answer, pid, "the process is no longer watched");
}

/* Copies the first line of a worker's stderr, without the program's name. */
static void first_line(const struct gsp_buf *output, struct gsp_err *err)
{
    static const char prefix[] = "gsprof: ";
    struct gsp_sv line = gsp_buf_sv(output);
    const char *end = line.len ? memchr(line.p, '\n', line.len) : NULL;
    if (end)
        line.len = (size_t)(end - line.p);
    if (gsp_sv_starts(line, prefix)) {
        line.p += sizeof(prefix) - 1;
        line.len -= sizeof(prefix) - 1;
    }
    snprintf(err->msg, sizeof(err->msg), "%.*s", (int)(line.len < 200 ? line.len : 200),
             line.p ? line.p : "");
}

/* An error code for an exit status of gsprof. Some codes share a status. */
static int code_of(int status)
{
    static const int codes[] = {GSP_E_PERM,   GSP_E_NOPROC, GSP_E_TORN,
                                GSP_E_FORMAT, GSP_E_NOMEM,  GSP_E_NOFILE};
    for (size_t i = 0; i < GSP_COUNT(codes); i++)
        if (gsp_err_exit_status(codes[i]) == status)
            return codes[i];
    return GSP_E_IO;
}

/* Answers with an error of a worker. */
static void worker_failed(struct gsp_http_answer *answer, const struct gsp_err *err,
                          const char *hint)
{
    gsp_daemon__routes_fail(answer, err, hint);
    if (err->code == GSP_E_LIMIT)
        answer->status = GSP_WORKER_LIMIT_STATUS;
}

/* Runs a command of gsprof and answers with its output. */
static void answer_with_command(const struct gsp_worker_job *order, struct gsp_http_answer *answer)
{
    struct gsp_worker_result result;
    struct gsp_err err = {0};
    if (gsp_daemon__worker_run(order, &result, &err) < 0) {
        worker_failed(answer, &err, NULL);
        return;
    }
    if (result.status != 0) {
        err.code = code_of(result.status);
        first_line(&result.err, &err);
        worker_failed(answer, &err, NULL);
        gsp_fd_close(&result.out_fd);
    } else {
        answer->file_fd = result.out_fd;
        answer->is_in_memory = true;
    }
    gsp_buf_free(&result.err);
}

/* Counts a worker in *running. Returns false, with an error in *answer, if max run already. */
static bool begin_worker(_Atomic unsigned *running, unsigned max, struct gsp_http_answer *answer)
{
    if (atomic_fetch_add(running, 1) < max)
        return true;
    atomic_fetch_sub(running, 1);
    gsp_http_answer_error(answer, 503, "BUSY", "too many requests of this kind are running",
                          gsp_daemon__hint(GSP_HINT_RETRY));
    return false;
}

void gsp_daemon__route_dump(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    char pid_text[16];
    int32_t pid = 0;
    if (!gsp_daemon__routes_pid(call, &pid, answer) ||
        !begin_worker(&call->daemon->dumps, DUMPS_MAX, answer))
        return;
    snprintf(pid_text, sizeof(pid_text), "%d", pid);
    const char *const args[] = {"dump", "--json", "--pid", pid_text, NULL};
    const struct gsp_worker_job order = {.args = args,
                                         .timeout_ns = DUMP_TIMEOUT_NS,
                                         .memory_bytes = DUMP_MEMORY,
                                         .answer_bytes = DUMP_BYTES_MAX,
                                         .client_fd = call->request->client_fd};
    answer_with_command(&order, answer);
    atomic_fetch_sub(&call->daemon->dumps, 1);
}

/* A request for a recording. */
struct record_request {
    double duration_s;
    double rate_hz;
    char stem[GSP_NAME_BYTES];
    char session[GSP_NAME_BYTES];
    bool native;
    bool subprocesses;
};

static bool read_record_request(const struct gsp_route_call *call, int32_t pid,
                                struct record_request *request, struct gsp_http_answer *answer)
{
    struct gsp_session session;
    struct gsp_err err = {0};
    *request = (struct record_request){.duration_s = RECORD_S, .rate_hz = RECORD_RATE_HZ};
    if (!gsp_daemon__routes_number(call, "duration", 0.01, 86400, &request->duration_s, answer) ||
        !gsp_daemon__routes_number(call, "rate", 1, 10000, &request->rate_hz, answer))
        return false;
    snprintf(request->stem, sizeof(request->stem), "stacks_%d", pid);
    int rc = gsp_http_body_bool(call->body, "native", &request->native, &err);
    if (rc >= 0)
        rc = gsp_http_body_bool(call->body, "subprocesses", &request->subprocesses, &err);
    if (rc >= 0)
        rc = gsp_daemon__routes_name(call->body, "name", request->stem, &err);
    if (rc >= 0)
        rc = gsp_daemon__routes_name(call->body, "session", request->session, &err);
    if (rc >= 0 && request->session[0]) {
        rc = gsp_daemon__sessions_find(call->daemon->sessions, request->session, &session, &err);
        if (rc == GSP_OK && !session.active)
            rc = gsp_err_set(&err, GSP_E_NOFILE, 0, "session %.180s has ended", request->session);
        if (rc == GSP_OK)
            snprintf(request->stem, sizeof(request->stem), "%.200s.%d", request->session, pid);
    }
    if (rc < 0)
        gsp_daemon__routes_fail(answer, &err, NULL);
    return rc >= 0;
}

void gsp_daemon__route_record(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct record_request request;
    struct gsp_err err = {0};
    char file[300];
    int32_t pid = 0;
    if (!gsp_daemon__routes_pid(call, &pid, answer) ||
        !read_record_request(call, pid, &request, answer))
        return;
    const struct gsp_recording_request order = {
        .pid = pid,
        .rate_hz = request.rate_hz,
        .duration_ns = (int64_t)(request.duration_s * 1e9),
        .session = request.session,
        .stem = request.stem,
        .native = request.native,
        .subprocesses = request.subprocesses,
    };
    if (gsp_daemon__targets_record(call->daemon->targets, &order, file, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return;
    }
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_bool(&json, "success", true);
    gsp_json_put_i64(&json, "pid", pid);
    gsp_json_put_str(&json, "file", file);
    gsp_json_put_f64(&json, "duration_s", request.duration_s);
    gsp_json_put_str(&json, "message", "recording; GET /flamegraph shows it, even while it runs");
    gsp_json_obj_end(&json);
}

/* Draws in a worker: a recording may be large or malformed. */
static void draw(const struct gsp_route_call *call, const char *path,
                 struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    int opened = -1;
    const int rc = gsp_file_open_member(path, (size_t)GSP_INPUT_BYTES_MAX, &opened, &err);
    gsp_auto_fd fd = opened;
    if (rc < 0) {
        worker_failed(answer, &err, NULL);
        return;
    }
    if (!begin_worker(&call->daemon->drawings, DRAWINGS_MAX, answer))
        return;
    const char *const args[] = {"flamegraph", "--from",  "gsp", "--output",
                                "-",          "--input", "-",   NULL};
    const struct gsp_worker_job order = {.args = args,
                                         .input_fd = fd,
                                         .timeout_ns = DRAWING_TIMEOUT_NS,
                                         .memory_bytes = DRAWING_MEMORY,
                                         .answer_bytes = DRAWING_BYTES_MAX,
                                         .client_fd = call->request->client_fd};
    answer_with_command(&order, answer);
    atomic_fetch_sub(&call->daemon->drawings, 1);
}

void gsp_daemon__route_flamegraph(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    const char *session = gsp_http_query(call->request, "session");
    const char *pid_text = gsp_http_query(call->request, "pid");
    gsp_auto_buf path = {0};
    struct gsp_err err = {0};
    int64_t pid = 0;
    char file[300];
    if (pid_text && gsp_parse_i64(pid_text, 1, INT32_MAX, &pid, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_PID));
        return;
    }
    if (!session && !pid_text) {
        gsp_http_answer_error(answer, 400, gsp_err_name(GSP_E_USAGE),
                              "neither session nor pid is given",
                              gsp_daemon__hint(GSP_HINT_FLAMEGRAPH));
        return;
    }
    const bool found = session
                           ? gsp_daemon__sessions_stacks_file(call->daemon->sessions, session,
                                                              (int32_t)pid, 0, file)
                           : gsp_daemon__targets_file(call->daemon->targets, (int32_t)pid, file);
    if (!found) {
        gsp_http_answer_error(answer, 404, "NOFILE", "no such recording",
                              gsp_daemon__hint(GSP_HINT_RECORDINGS));
        return;
    }
    gsp_buf_printf(&path, "%s/%s", call->daemon->fixed->output_dir, file);
    const char *text = gsp_buf_cstr(&path);
    if (text) {
        draw(call, text, answer);
    } else {
        gsp_ignore(gsp_err_nomem(&err)); /* the answer has it */
        gsp_daemon__routes_fail(answer, &err, NULL);
    }
}

/* Answers with the error of the query worker. */
static void query_failed(const struct gsp_worker_result *result, struct gsp_http_answer *answer)
{
    struct gsp_body *said = NULL;
    struct gsp_sv code = gsp_sv_of("IO");
    struct gsp_sv message = gsp_sv_of("the query failed");
    struct gsp_sv candidate = {0};
    struct gsp_buf texts[3] = {{0}, {0}, {0}};
    double status = 500;
    double line = 0;
    double column = 0;
    if (gsp_http_body_read(gsp_buf_sv(&result->err), &said, NULL) == GSP_OK) {
        gsp_ignore(gsp_http_body_text(said, "code", &code, NULL));
        gsp_ignore(gsp_http_body_text(said, "message", &message, NULL));
        gsp_ignore(gsp_http_body_text(said, "candidate", &candidate, NULL));
        gsp_ignore(gsp_http_body_f64(said, "status", &status, NULL));
        gsp_ignore(gsp_http_body_f64(said, "line", &line, NULL));
        gsp_ignore(gsp_http_body_f64(said, "column", &column, NULL));
    }
    gsp_buf_putsv(&texts[0], code);
    gsp_buf_putsv(&texts[1], message);
    if (gsp_sv_eq(code, gsp_sv_of("TRUST")))
        gsp_buf_puts(&texts[2], gsp_daemon__hint(GSP_HINT_TRUST));
    else
        gsp_daemon__hint_query(line, column, candidate, &texts[2]);
    if (texts[2].len == 0 && (status == GSP_WORKER_LIMIT_STATUS || status > 500))
        gsp_buf_puts(&texts[2], gsp_daemon__hint(GSP_HINT_QUERY_LIMITS));
    gsp_http_answer_error(answer, (int)status, gsp_buf_cstr(&texts[0]), gsp_buf_cstr(&texts[1]),
                          texts[2].len ? gsp_buf_cstr(&texts[2]) : NULL);
    gsp_http_body_free(said);
    for (size_t i = 0; i < GSP_COUNT(texts); i++)
        gsp_buf_free(&texts[i]);
}

/* A request for a query. */
struct query_request {
    struct gsp_sv sql;
    struct gsp_buf params; /* JSON */
    char format[8];
    char rows[24];
    char memory[24];
    char timeout[32];
    bool is_trusted; /* the client may read the rings and the current stacks of processes */
    int client_fd;   /* see query_worker.h */
};

/* Checks the parameters here, so that malformed ones do not start a process. */
static int read_params(const struct gsp_body *body, struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_param *params = NULL;
    size_t count = 0;
    int rc = gsp_daemon__query_params_read(body, &params, &count, err);
    free(params);
    return rc < 0 ? rc : gsp_http_body_json(body, "params", out, err);
}

static bool is_format(struct gsp_sv name)
{
    static const char *const NAMES[] = {"json", "object", "csv", "csv-raw", "arrow"};
    bool found = false;
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        found = found || gsp_sv_eq(name, gsp_sv_of(NAMES[i]));
    return found;
}

static bool read_query_request(const struct gsp_route_call *call,
                               const struct gsp_settings_live *settings, struct query_request *out,
                               struct gsp_http_answer *answer)
{
    struct gsp_sv format = gsp_sv_of("json");
    struct gsp_err err = {0};
    double rows = (double)settings->query_rows;
    out->client_fd = call->request->client_fd;
    out->is_trusted = call->request->trust != GSP_HTTP_ANONYMOUS;
    if (!gsp_daemon__routes_number(call, "limit", 1, (double)settings->query_rows, &rows, answer))
        return false;
    int rc = gsp_http_body_text(call->body, "sql", &out->sql, &err);
    if (rc == 0)
        rc = gsp_err_set(&err, GSP_E_USAGE, 0, "sql is missing");
    if (rc > 0)
        rc = gsp_http_body_text(call->body, "format", &format, &err);
    if (rc >= 0)
        rc = read_params(call->body, &out->params, &err);
    if (rc >= 0 && !is_format(format))
        rc =
            gsp_err_set(&err, GSP_E_USAGE, 0, "format must be json, object, csv, csv-raw or arrow");
    if (rc < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_QUERY_BODY));
        return false;
    }
    snprintf(out->format, sizeof(out->format), "%.*s", (int)format.len, format.p);
    snprintf(out->rows, sizeof(out->rows), "%.0f", rows);
    snprintf(out->memory, sizeof(out->memory), "%lldM", (long long)settings->query_memory_mb);
    snprintf(out->timeout, sizeof(out->timeout), "%lldms",
             (long long)(settings->query_timeout_ns / GSP_NS_PER_MS));
    return true;
}

static const char *type_of(const char *format)
{
    if (strncmp(format, "csv", 3) == 0)
        return "text/csv; charset=utf-8";
    return strcmp(format, "arrow") == 0 ? "application/vnd.apache.arrow.stream"
                                        : "application/json";
}

static int make_facts(struct gsp_daemon *daemon, const struct query_request *request,
                      struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_session *sessions = NULL;
    struct gsp_frame_log_range *stretches = NULL;
    struct gsp_query_input facts = {.host = daemon->host,
                                    .state_dir = daemon->fixed->state_dir,
                                    .params = gsp_buf_sv(&request->params)};
    /* Stretches first: then every session that has frames in them is in the list. */
    int rc = gsp_frames_log_ranges(daemon->frames, &stretches, &facts.stretch_count, err);
    if (rc == GSP_OK)
        rc = gsp_daemon__sessions_list(daemon->sessions, &sessions, &facts.session_count, err);
    facts.sessions = sessions;
    facts.stretches = stretches;
    if (rc == GSP_OK)
        gsp_daemon__query_input_write(&facts, out);
    if (rc == GSP_OK && out->failed)
        rc = gsp_err_nomem(err);
    free(sessions);
    free(stretches);
    return rc;
}

static void run_query(struct gsp_daemon *daemon, const struct query_request *request,
                      const struct gsp_settings_live *settings, struct gsp_http_answer *answer)
{
    gsp_auto_buf facts = {0};
    struct gsp_worker_result result;
    struct gsp_err err = {0};
    char own_pid[16];
    snprintf(own_pid, sizeof(own_pid), "%d", (int)getpid());
    const struct gsp_settings_fixed *fixed = daemon->fixed;
    const uint64_t all_bytes = (uint64_t)fixed->answers_mb << (request->is_trusted ? 20 : 19);
    const uint64_t one_bytes = (uint64_t)fixed->query_answer_mb << 20;
    const char *args[12] = {"query-worker",  "--format",    request->format,
                            "--limit",       request->rows, "--memory",
                            request->memory, "--timeout",   request->timeout};
    size_t count = 9;
    args[count++] = request->is_trusted ? "--stacks" : "--only-pid";
    if (!request->is_trusted)
        args[count++] = own_pid;
    else if (fixed->all_users)
        args[count++] = "--all-users";
    if (make_facts(daemon, request, &facts, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return;
    }
    const struct gsp_worker_job order = {.args = args,
                                         .input = request->sql,
                                         .extra = gsp_buf_sv(&facts),
                                         .timeout_ns = settings->query_timeout_ns,
                                         .memory_bytes = (uint64_t)settings->query_memory_mb << 20,
                                         .answer_bytes =
                                             one_bytes < all_bytes ? one_bytes : all_bytes,
                                         .client_fd = request->client_fd};
    if (gsp_daemon__worker_run(&order, &result, &err) < 0) {
        worker_failed(answer, &err, gsp_daemon__hint(GSP_HINT_QUERY_LIMITS));
        return;
    }
    if (result.status != 0) {
        query_failed(&result, answer);
        gsp_fd_close(&result.out_fd);
    } else {
        answer->file_fd = result.out_fd;
        answer->is_in_memory = true;
        answer->content_type = type_of(request->format);
    }
    gsp_buf_free(&result.err);
}

/* Clients without trust leave half of the queries to the others. */
static bool begin_query(struct gsp_daemon *daemon, bool is_trusted, struct gsp_http_answer *answer)
{
    if (!is_trusted && !begin_worker(&daemon->anonymous_queries, ANONYMOUS_MAX, answer))
        return false;
    if (begin_worker(&daemon->queries, QUERIES_MAX, answer))
        return true;
    atomic_fetch_sub(&daemon->anonymous_queries, is_trusted ? 0 : 1);
    return false;
}

void gsp_daemon__route_query(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    const struct gsp_settings_live settings = gsp_daemon__live_settings(daemon);
    struct query_request request = {0};
    if (read_query_request(call, &settings, &request, answer) &&
        begin_query(daemon, request.is_trusted, answer)) {
        run_query(daemon, &request, &settings, answer);
        atomic_fetch_sub(&daemon->queries, 1);
        atomic_fetch_sub(&daemon->anonymous_queries, request.is_trusted ? 0 : 1);
    }
    gsp_buf_free(&request.params);
}
