/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/routes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "daemon/routes_internal.h"

#define TYPE_JSON "application/json"

/* The properties of bodies; null is the same as not there. */
static const char START_BODY[] =
    "{\"name\":{\"type\":[\"string\",\"null\"],\"minLength\":1,\"maxLength\":200},"
    "\"labels\":{\"type\":[\"object\",\"null\"]},"
    "\"pids\":{\"type\":[\"array\",\"null\"],\"maxItems\":1024,"
    "\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":2147483647}},"
    "\"stacks\":{\"type\":[\"boolean\",\"null\"]},"
    "\"rate\":{\"type\":[\"number\",\"null\"],\"minimum\":1,\"maximum\":10000},"
    "\"native\":{\"type\":[\"boolean\",\"null\"]},\"force\":{\"type\":[\"boolean\",\"null\"]}}";
static const char STOP_BODY[] =
    "{\"name\":{\"type\":[\"string\",\"null\"],\"minLength\":1,\"maxLength\":200}}";
static const char QUERY_BODY[] =
    "{\"sql\":{\"type\":\"string\",\"minLength\":1},"
    "\"format\":{\"type\":[\"string\",\"null\"],\"enum\":[\"json\",\"object\",\"csv\",\"arrow\",null]},"
    "\"params\":{\"type\":[\"array\",\"object\",\"null\"],\"items\":{\"type\":[\"string\","
    "\"number\",\"boolean\",\"null\"]},\"additionalProperties\":{\"type\":[\"string\",\"number\","
    "\"boolean\",\"null\"]}},"
    "\"limit\":{\"type\":[\"number\",\"null\"],\"minimum\":1}}";
static const char RECORD_BODY[] =
    "{\"duration\":{\"type\":[\"number\",\"null\"],\"minimum\":0.01,\"maximum\":86400},"
    "\"rate\":{\"type\":[\"number\",\"null\"],\"minimum\":1,\"maximum\":10000},"
    "\"name\":{\"type\":[\"string\",\"null\"]},\"session\":{\"type\":[\"string\",\"null\"]},"
    "\"native\":{\"type\":[\"boolean\",\"null\"]},"
    "\"subprocesses\":{\"type\":[\"boolean\",\"null\"]}}";
static const char SESSIONS_SCHEMA[] =
    "{\"type\":\"object\",\"required\":[\"total_sessions\",\"active_sessions\",\"sessions\"],"
    "\"properties\":{\"total_sessions\":{\"type\":\"integer\"},"
    "\"active_sessions\":{\"type\":\"integer\"},\"sessions\":{\"type\":\"array\"}}}";

const struct gsp_route gsp_routes[] = {
    {"GET", "/status", gsp_route_status, "What the daemon does: rate, sessions, GPUs, losses", NULL,
     NULL, TYPE_JSON, NULL, "", false, false, false},
    {"GET", "/", gsp_route_root, "A page for people", NULL, NULL, "text/html; charset=utf-8", NULL,
     "", false, false, false},
    {"GET", "/profiling/sessions", gsp_route_sessions, "All sessions, the active ones first", NULL,
     NULL, TYPE_JSON, SESSIONS_SCHEMA, "", false, false, false},
    {"POST", "/profiling/start", gsp_route_start, "Begins a session", START_BODY, NULL, TYPE_JSON,
     NULL, "400 403 404 409 413 422 503 507", true, false, false},
    {"POST", "/profiling/stop", gsp_route_stop, "Ends a session, or all with {}", STOP_BODY, NULL,
     TYPE_JSON, NULL, "400 404 413 422 500 503 507", true, false, false},
    {"GET", "/profiling/sessions/{name}", gsp_route_session, "One session", NULL, NULL, TYPE_JSON,
     NULL, "404", false, false, false},
    {"DELETE", "/profiling/sessions/{name}", gsp_route_delete, "Forgets a session and its file",
     NULL, NULL, TYPE_JSON, NULL, "404 409 503", true, false, false},
    {"GET", "/profiling/sessions/{name}/download", gsp_route_download, "The file of a session",
     NULL, "stacks", TYPE_JSON, NULL, "404 409", false, false, false},
    {"GET", "/clients", gsp_route_clients, "The machines that report, and their GPUs", NULL, NULL,
     TYPE_JSON, NULL, "", false, false, false},
    {"GET", "/metrics/latest", gsp_route_latest, "The newest values of all sources", NULL, NULL,
     TYPE_JSON, NULL, "503", false, false, false},
    {"GET", "/metrics", gsp_route_prometheus, "The newest values, for Prometheus", NULL, NULL,
     "text/plain; version=0.0.4; charset=utf-8", NULL, "", false, false, false},
    {"GET", "/stream", gsp_route_stream, "Frames as they come (server-sent events)", NULL, NULL,
     "text/event-stream", NULL, "503", false, false, false},
    {"POST", "/query", gsp_route_query, "One SELECT over all tables", QUERY_BODY, NULL, TYPE_JSON,
     NULL, "400 403 413 422 500 501 503 504", true, false, false},
    {"GET", "/config", gsp_route_config, "The settings", NULL, NULL, TYPE_JSON, NULL, "", false,
     false, false},
    {"PUT", "/config", gsp_route_config_put, "Changes settings: {\"gsprof.sample_rate\": 0.1}",
     "{}", NULL, TYPE_JSON, NULL, "400 403 413 422 503", true, false, false},
    {"GET", "/targets", gsp_route_targets, "Watched processes and recordings of stacks", NULL, NULL,
     TYPE_JSON, NULL, "", false, false, false},
    {"POST", "/targets/{pid}/attach", gsp_route_attach, "Watches a process", "{}", NULL, TYPE_JSON,
     NULL, "400 403 404 413 422 503", true, true, false},
    {"POST", "/targets/{pid}/detach", gsp_route_detach, "Watches it no more", "{}", NULL, TYPE_JSON,
     NULL, "400 403 404 413 422 503", true, true, false},
    {"POST", "/targets/{pid}/dump", gsp_route_dump, "The present stacks of a process", "{}", NULL,
     TYPE_JSON, NULL, "400 403 404 409 413 422 503 504", true, true, false},
    {"POST", "/targets/{pid}/record", gsp_route_record, "Records the stacks of a process",
     RECORD_BODY, NULL, TYPE_JSON, NULL, "400 403 404 409 413 422 500 503 507", true, true, false},
    {"GET", "/flamegraph", gsp_route_flamegraph, "A recording of stacks as a flame graph", NULL,
     "session pid", "image/svg+xml", NULL, "400 404 422 503", true, false, false},
    {"GET", "/health", gsp_route_health, "Whether the daemon runs", NULL, NULL, TYPE_JSON, NULL, "",
     false, false, true},
    {"GET", "/ready", gsp_route_ready, "Whether there is a frame", NULL, NULL, TYPE_JSON, NULL,
     "503", false, false, true},
    {"GET", "/openapi.json", gsp_route_openapi, "This description", NULL, NULL, TYPE_JSON, NULL, "",
     false, false, false},
    {0},
};

/* Whether a path is of a pattern's form; what stands at {…} goes to capture. */
static bool matches(const char *pattern, const char *path, char capture[GSP_CAPTURE_MAX])
{
    while (*pattern && *pattern != '{')
        if (*pattern++ != *path++)
            return false;
    if (!*pattern)
        return *path == '\0';
    const size_t len = strcspn(path, "/");
    if (!len || len >= GSP_CAPTURE_MAX)
        return false;
    memcpy(capture, path, len);
    capture[len] = '\0';
    return strcmp(strchr(pattern, '}') + 1, path + len) == 0;
}

static const struct gsp_route *find(const char *method, const char *path,
                                    char capture[GSP_CAPTURE_MAX])
{
    for (const struct gsp_route *route = gsp_routes; route->method; route++)
        if (matches(route->path, path, capture) && strcmp(route->method, method) == 0)
            return route;
    return NULL;
}

bool gsp_routes_is_slow(void *ctx GSP_UNUSED, const char *method, const char *path)
{
    char capture[GSP_CAPTURE_MAX];
    const struct gsp_route *route = find(method, path, capture);
    return route && route->slow;
}

bool gsp_routes_is_public(void *ctx GSP_UNUSED, const char *path)
{
    char capture[GSP_CAPTURE_MAX];
    const struct gsp_route *route = find("GET", path, capture);
    return route && route->open;
}

/* No route: 404, or 405 with the methods that the path has. */
static void refuse(const char *path, struct gsp_http_answer *answer)
{
    /* The paths have at most two methods each: every answer is one of these. */
    static const char *const allowed[] = {NULL, "GET, HEAD", "POST", "GET, HEAD, PUT",
                                          "GET, HEAD, DELETE"};
    char capture[GSP_CAPTURE_MAX];
    bool has_get = false;
    size_t other = 0;
    for (const struct gsp_route *route = gsp_routes; route->method; route++) {
        if (!matches(route->path, path, capture))
            continue;
        has_get = has_get || route->method[0] == 'G';
        if (strcmp(route->method, "POST") == 0)
            other = 2;
        else if (strcmp(route->method, "PUT") == 0)
            other = 3;
        else if (strcmp(route->method, "DELETE") == 0)
            other = 4;
    }
    if (!has_get && !other) {
        gsp_http_answer_error(answer, 404, "NOFILE", "there is no such path",
                              "GET /openapi.json lists all");
        return;
    }
    answer->allow = allowed[other ? other : 1];
    gsp_http_answer_error(answer, 405, "METHOD", "the path does not take this method",
                          answer->allow);
}

void gsp_routes_handle(void *ctx, const struct gsp_http_request *request,
                       struct gsp_http_answer *answer)
{
    struct gsp_route_call call = {.daemon = ctx, .request = request};
    struct gsp_err err = {0};
    const struct gsp_route *route = find(request->method, request->path, call.capture);
    if (!route) {
        refuse(request->path, answer);
        return;
    }
    if (route->control && !call.daemon->settings.allow_control) {
        gsp_http_answer_error(answer, 403, "CONTROL", "this daemon does not look into processes",
                              "start it with --allow-control");
        return;
    }
    if (route->body && gsp_http_body_read(request->body, &call.body, &err) < 0) {
        gsp_routes__fail(answer, &err, "send a JSON object");
        return;
    }
    answer->content_type = route->content;
    route->run(&call, answer);
    gsp_http_body_free(call.body);
}

/* The table's status, except where it means a folder of ours: then it is our fault, not the
 * request's. */
static int status_of(const struct gsp_err *err)
{
    if (err->code == GSP_E_NOWRITE)
        return err->sys == ENOSPC || err->sys == EDQUOT ? 507 : 500;
    if (err->code == GSP_E_FORMAT || err->code == GSP_E_USAGE)
        return 400;
    return gsp_err_http_status(err->code);
}

/* What to do about an error that nobody knows more of. */
static const char *usual_hint(int code)
{
    static const struct {
        int code;
        const char *hint;
    } HINTS[] = {
        {GSP_E_USAGE, "GET /openapi.json tells what each request takes"},
        {GSP_E_NOPROC, "gsprof list shows the processes that can be looked at"},
        {GSP_E_PERM, "gsprof doctor tells what is permitted here"},
        {GSP_E_NOTSUP, "gsprof doctor tells what works here"},
        {GSP_E_NOWRITE, "GET /status tells the output folder, and which files are tried again"},
    };
    for (size_t i = 0; i < GSP_COUNT(HINTS); i++)
        if (HINTS[i].code == code)
            return HINTS[i].hint;
    return NULL;
}

void gsp_routes__fail(struct gsp_http_answer *answer, const struct gsp_err *err, const char *hint)
{
    const char *name = err->reason == GSP_REASON_CONTROL ? "CONTROL" : gsp_err_name(err->code);
    hint = hint ? hint : usual_hint(err->code);
    gsp_http_answer_error(answer, status_of(err), name,
                          err->msg[0] ? err->msg : gsp_err_text(err->code), hint);
}

void gsp_routes__time(struct gsp_json *json, int64_t ts_ns)
{
    const time_t s = (time_t)(ts_ns / GSP_NS_PER_S);
    struct tm tm = {0};
    char day[32] = "";
    char zone[8] = "+0000";
    char text[64];
    if (localtime_r(&s, &tm)) {
        strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
        strftime(zone, sizeof(zone), "%z", &tm);
    }
    snprintf(text, sizeof(text), "%s.%03d%.3s:%.2s", day,
             (int)(ts_ns % GSP_NS_PER_S / GSP_NS_PER_MS), zone, zone + 3);
    gsp_json_str(json, text);
}

bool gsp_routes__number(const struct gsp_route_call *call, const char *name, double min, double max,
                        double *out, struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    double v = *out;
    int rc = gsp_http_body_f64(call->body, name, &v, &err);
    if (rc == 1 && !(v >= min && v <= max))
        rc = gsp_err_set(&err, GSP_E_USAGE, 0, "%s must be from %g to %g", name, min, max);
    if (rc < 0) {
        gsp_routes__fail(answer, &err, NULL);
        return false;
    }
    *out = v;
    return true;
}

bool gsp_routes__pid(const struct gsp_route_call *call, int32_t *out,
                     struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    int64_t pid = 0;
    if (gsp_parse_i64(call->capture, 1, INT32_MAX, &pid, &err) < 0) {
        gsp_routes__fail(answer, &err, "the path is /targets/PID/...");
        return false;
    }
    *out = (int32_t)pid;
    return true;
}

void gsp_routes__settings(struct gsp_daemon *daemon, struct gsp_settings *out)
{
    pthread_mutex_lock(&daemon->lock);
    *out = daemon->settings;
    pthread_mutex_unlock(&daemon->lock);
}
