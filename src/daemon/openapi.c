/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "daemon/routes_internal.h"

static void put_parameter(struct gsp_json *json, struct gsp_sv name, const char *where,
                          const char *type)
{
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "name", name);
    gsp_json_put_str(json, "in", where);
    gsp_json_put_bool(json, "required", strcmp(where, "path") == 0);
    gsp_json_put_obj_begin(json, "schema");
    gsp_json_put_str(json, "type", type);
    gsp_json_obj_end(json);
    gsp_json_obj_end(json);
}

static void put_parameters(struct gsp_json *json, const struct gsp_route *route)
{
    const char *open = strchr(route->path, '{');
    if (!open && !route->query)
        return;
    gsp_json_put_arr_begin(json, "parameters");
    if (open) {
        const struct gsp_sv name = {open + 1, strcspn(open + 1, "}")};
        const bool is_pid = gsp_sv_eq(name, gsp_sv_of("pid"));
        put_parameter(json, name, "path", is_pid ? "integer" : "string");
    }
    struct gsp_sv rest = gsp_sv_of(route->query);
    struct gsp_sv word;
    while (rest.p && gsp_sv_split(&rest, ' ', &word))
        put_parameter(json, word, "query", "string");
    gsp_json_arr_end(json);
}

/* type NULL: JSON. */
static void put_content(struct gsp_json *json, const char *type, const char *schema)
{
    const char *full = type ? type : "application/json";
    const struct gsp_sv bare = {full, strcspn(full, ";")}; /* without the charset */
    gsp_json_put_obj_begin(json, "content");
    gsp_json_keysv(json, bare);
    gsp_json_obj_begin(json);
    gsp_json_put_raw(json, "schema", gsp_sv_of(schema));
    gsp_json_obj_end(json);
    gsp_json_obj_end(json);
}

static void put_body(struct gsp_json *json, const struct gsp_route *route)
{
    if (!route->body)
        return;
    gsp_json_put_obj_begin(json, "requestBody");
    gsp_json_put_bool(json, "required", false);
    put_content(json, NULL, route->body);
    gsp_json_obj_end(json);
}

static void put_response(struct gsp_json *json, struct gsp_sv status, const char *text,
                         const char *type, const char *schema)
{
    gsp_json_keysv(json, status);
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "description", text);
    put_content(json, type, schema);
    gsp_json_obj_end(json);
}

static const char *schema_of(const struct gsp_route *route)
{
    if (route->schema)
        return route->schema;
    return route->content ? "{\"type\":\"string\"}" : "{\"type\":\"object\"}";
}

static void put_responses(struct gsp_json *json, const struct gsp_route *route)
{
    gsp_json_put_obj_begin(json, "responses");
    put_response(json, gsp_sv_of("200"), "the result", route->content, schema_of(route));
    struct gsp_sv rest = gsp_sv_of(route->errors);
    struct gsp_sv status;
    while (rest.p && gsp_sv_split(&rest, ' ', &status))
        if (status.len)
            put_response(json, status, "an error", NULL, gsp_daemon__error_schema);
    if (route->needs != GSP_NEEDS_NOTHING)
        put_response(json, gsp_sv_of("401"), "the token is missing or invalid", NULL,
                     gsp_daemon__error_schema);
    if (route->needs >= GSP_NEEDS_TRUST && !(route->errors && strstr(route->errors, "403")))
        put_response(json, gsp_sv_of("403"), "the client may not do this", NULL,
                     gsp_daemon__error_schema);
    if (!route->is_vital && !(route->errors && strstr(route->errors, "503")))
        put_response(json, gsp_sv_of("503"), "a limit of the daemon is reached", NULL,
                     gsp_daemon__error_schema);
    gsp_json_obj_end(json);
}

/* The alternatives: nothing ("{}"), the token, the cookie of a login. */
static void put_security(struct gsp_json *json, const struct gsp_route *route)
{
    static const char *const ALL = "[{},{\"token\":[]},{\"login\":[]}]";
    static const char *const SOME = "[{\"token\":[]},{\"login\":[]}]";
    const char *security = route->needs == GSP_NEEDS_ACCESS ? ALL : SOME;
    gsp_json_put_raw(json, "security",
                     gsp_sv_of(route->needs == GSP_NEEDS_NOTHING ? "[]" : security));
    gsp_json_put_str(json, "x-needs", gsp_daemon__routes_needs_name(route->needs));
}

static void put_operation(struct gsp_json *json, const struct gsp_route *route)
{
    char method[8];
    size_t len = 0;
    for (; len < sizeof(method) - 1 && route->method[len]; len++)
        method[len] = (char)(route->method[len] - 'A' + 'a');
    method[len] = '\0';
    gsp_json_put_obj_begin(json, method);
    gsp_json_put_str(json, "summary", route->summary);
    put_security(json, route);
    put_parameters(json, route);
    put_body(json, route);
    put_responses(json, route);
    gsp_json_obj_end(json);
}

/* Whether an earlier row of the table has the same path. */
static bool is_repeated(const struct gsp_route *route)
{
    for (const struct gsp_route *before = gsp_routes; before < route; before++)
        if (strcmp(before->path, route->path) == 0)
            return true;
    return false;
}

void gsp_daemon__route_openapi(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_json json;
    gsp_auto_buf components = {0};
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "openapi", "3.1.0");
    gsp_json_put_obj_begin(&json, "info");
    gsp_json_put_str(&json, "title", "gsprof");
    gsp_json_put_str(&json, "version", GSP_VERSION);
    gsp_json_obj_end(&json);
    gsp_buf_printf(&components,
                   "{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                   "\"login\":{\"type\":\"apiKey\",\"in\":\"cookie\",\"name\":\"gsprof_%u\"}}}",
                   gsp_http_port(call->daemon->server));
    gsp_json_put_raw(&json, "components", gsp_buf_sv(&components));
    gsp_json_put_obj_begin(&json, "paths");
    for (const struct gsp_route *route = gsp_routes; route->method; route++) {
        if (is_repeated(route))
            continue;
        gsp_json_put_obj_begin(&json, route->path);
        for (const struct gsp_route *same = route; same->method; same++)
            if (strcmp(same->path, route->path) == 0)
                put_operation(&json, same);
        gsp_json_obj_end(&json);
    }
    gsp_json_obj_end(&json);
    gsp_json_obj_end(&json);
}
