/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/routes.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "daemon/hints.h"
#include "daemon/routes_internal.h"

/* Whether a path matches a pattern. Copies the text at {...} to capture. */
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

bool gsp_daemon__routes_is_slow(void *ctx GSP_UNUSED, const char *method, const char *path)
{
    char capture[GSP_CAPTURE_MAX];
    const struct gsp_route *route = find(method, path, capture);
    return route && route->is_slow;
}

bool gsp_daemon__routes_is_vital(void *ctx GSP_UNUSED, const char *path)
{
    char capture[GSP_CAPTURE_MAX];
    const struct gsp_route *route = find("GET", path, capture);
    return route && route->is_vital;
}

const char *gsp_daemon__routes_needs_name(enum gsp_route_needs needs)
{
    static const char *const NAMES[] = {"unknown", "nothing", "access", "trust", "control"};
    gsp_assert((size_t)needs < GSP_COUNT(NAMES));
    return NAMES[needs];
}

/* The only place that decides what a client may do. */
static struct gsp_http_refusal check(const struct gsp_daemon *daemon, enum gsp_http_trust trust,
                                     enum gsp_route_needs needs)
{
    const struct gsp_http_refusal allowed = {0};
    if (needs == GSP_NEEDS_NOTHING)
        return allowed;
    if (trust == GSP_HTTP_ANONYMOUS && daemon->token)
        return (struct gsp_http_refusal){401, "TOKEN", "the request has no valid token",
                                         gsp_daemon__hint(GSP_HINT_TOKEN)};
    if (needs == GSP_NEEDS_ACCESS || (trust == GSP_HTTP_OWNER && needs != GSP_NEEDS_UNKNOWN))
        return allowed;
    if (trust == GSP_HTTP_ANONYMOUS)
        return (struct gsp_http_refusal){403, "TRUST", "only the daemon's owner may do this",
                                         gsp_daemon__hint(GSP_HINT_TRUST)};
    if (needs == GSP_NEEDS_TRUST || (needs == GSP_NEEDS_CONTROL && daemon->fixed->allow_control))
        return allowed;
    return (struct gsp_http_refusal){403, "CONTROL",
                                     "the token alone does not allow control of this daemon",
                                     gsp_daemon__hint(GSP_HINT_ALLOW_CONTROL)};
}

void gsp_daemon__routes_admit(void *ctx, const struct gsp_http_request *request,
                              struct gsp_http_refusal *why)
{
    char capture[GSP_CAPTURE_MAX];
    const struct gsp_route *route = find(request->method, request->path, capture);
    /* With a token, a stranger does not learn which paths exist. */
    *why = check(ctx, request->trust, route ? route->needs : GSP_NEEDS_ACCESS);
}

bool gsp_daemon__routes_allow(const struct gsp_route_call *call, enum gsp_route_needs needs,
                              struct gsp_http_answer *answer)
{
    const struct gsp_http_refusal why = check(call->daemon, call->request->trust, needs);
    if (!why.status)
        return true;
    gsp_http_answer_error(answer, why.status, why.code, why.message, why.hint);
    return false;
}

/* No route matches: 404, or 405 with the methods of the path. */
static void refuse(const char *path, struct gsp_http_answer *answer)
{
    /* No path has more than two methods, so one of these fits. */
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
        gsp_http_answer_error(answer, 404, "NOFILE", "no such path",
                              gsp_daemon__hint(GSP_HINT_PATHS));
        return;
    }
    answer->allow = allowed[other ? other : 1];
    gsp_http_answer_error(answer, 405, "METHOD", "the path does not support this method",
                          answer->allow);
}

void gsp_daemon__routes_handle(void *ctx, const struct gsp_http_request *request,
                               struct gsp_http_answer *answer)
{
    struct gsp_route_call call = {.daemon = ctx, .request = request};
    struct gsp_err err = {0};
    const struct gsp_route *route = find(request->method, request->path, call.capture);
    if (!route) {
        refuse(request->path, answer);
        return;
    }
    const bool is_form = route->reads_form && gsp_sv_starts(request->body, GSP_FORM_FIELD);
    if (route->body && !is_form && gsp_http_body_read(request->body, &call.body, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_BODY));
        return;
    }
    answer->content_type = route->content ? route->content : "application/json";
    route->run(&call, answer);
    gsp_http_body_free(call.body);
}

/* The HTTP status of an error. NOWRITE is about the daemon's own folders, so the request is not at
 * fault, nor is it for what the daemon keeps; FORMAT and USAGE are about the request. */
static int status_of(const struct gsp_err *err)
{
    if ((err->code == GSP_E_NOWRITE || err->code == GSP_E_LIMIT) &&
        (err->sys == ENOSPC || err->sys == EDQUOT))
        return 507;
    if (err->code == GSP_E_NOWRITE)
        return 500;
    if (err->code == GSP_E_FORMAT || err->code == GSP_E_USAGE)
        return 400;
    return gsp_err_http_status(err->code);
}

void gsp_daemon__routes_fail(struct gsp_http_answer *answer, const struct gsp_err *err,
                             const char *hint)
{
    const char *name = err->reason == GSP_REASON_CONTROL ? "CONTROL" : gsp_err_name(err->code);
    hint = hint ? hint : gsp_daemon__hint_for_error(err->code);
    gsp_http_answer_error(answer, status_of(err), name,
                          err->msg[0] ? err->msg : gsp_err_text(err->code), hint);
}

void gsp_daemon__routes_time(struct gsp_json *json, int64_t ts_ns)
{
    char text[64];
    gsp_json_str(json, gsp_fmt_iso_time(ts_ns, text, sizeof(text)));
}

bool gsp_daemon__routes_number(const struct gsp_route_call *call, const char *name, double min,
                               double max, double *out, struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    double v = *out;
    int rc = gsp_http_body_f64(call->body, name, &v, &err);
    if (rc == 1 && !(v >= min && v <= max))
        rc = gsp_err_set(&err, GSP_E_USAGE, 0, "%s must be from %g to %g", name, min, max);
    if (rc < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return false;
    }
    *out = v;
    return true;
}

bool gsp_daemon__routes_pid(const struct gsp_route_call *call, int32_t *out,
                            struct gsp_http_answer *answer)
{
    struct gsp_err err = {0};
    int64_t pid = 0;
    if (gsp_parse_i64(call->capture, 1, INT32_MAX, &pid, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_TARGET_PATH));
        return false;
    }
    *out = (int32_t)pid;
    return true;
}

int gsp_daemon__routes_name(const struct gsp_body *body, const char *key, char out[GSP_NAME_BYTES],
                            struct gsp_err *err)
{
    struct gsp_sv name = {0};
    int rc = gsp_http_body_text(body, key, &name, err);
    if (rc <= 0)
        return rc;
    rc = gsp_daemon__session_name_check(name, err);
    if (rc < 0)
        return rc;
    gsp_assert(name.len < GSP_NAME_BYTES);
    memcpy(out, name.p, name.len);
    out[name.len] = '\0';
    return 1;
}
