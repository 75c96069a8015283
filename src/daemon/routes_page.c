/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "daemon/hints.h"
#include "daemon/routes_internal.h"
#include "model/format.h"

#define SESSIONS_SHOWN 100U

static void put_head(const struct gsp_daemon *daemon, struct gsp_buf *out)
{
    gsp_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
                      "<meta name=\"viewport\" content=\"width=device-width\">"
                      "<title>gsprof</title><style>body{font:16px/1.5 system-ui,sans-serif;"
                      "margin:2em auto;max-width:60em;padding:0 1em}td,th{text-align:left;"
                      "padding:.2em 1em .2em 0}</style>\n<h1>gsprof on ");
    gsp_buf_xml(out, gsp_sv_of(daemon->host));
    gsp_buf_puts(out, "</h1>\n");
}

static void put_form(struct gsp_buf *out)
{
    gsp_buf_puts(out,
                 "<form method=\"post\" action=\"/login\"><label>One-time code "
                 "<input name=\"code\" autocomplete=\"off\" autofocus required></label> "
                 "<button>Log in</button></form>\n<p><code>gsprof serve</code> shows a code in its "
                 "terminal; <code>gsprof http-login</code> prints a new one.</p>\n");
}

static void put_links(bool is_trusted, struct gsp_buf *out)
{
    static const char *const LINKS[] = {"/status",  "/profiling/sessions", "/metrics/latest",
                                        "/metrics", "/openapi.json",       "/config",
                                        "/targets"};
    const size_t trusted = 2; /* the last ones need trust */
    gsp_buf_puts(out, "<p>");
    for (size_t i = 0; i < GSP_COUNT(LINKS) - (is_trusted ? 0 : trusted); i++)
        gsp_buf_printf(out, "<a href=\"%s\">%s</a> ", LINKS[i], LINKS[i]);
    gsp_buf_puts(out, "</p>\n");
}

static void put_sessions(struct gsp_daemon *daemon, struct gsp_buf *out)
{
    struct gsp_sessions_counts counts;
    struct gsp_session *all = calloc(SESSIONS_SHOWN, sizeof(*all));
    /* Without memory the page has the counts but no list. */
    const size_t n = gsp_daemon__sessions_first(daemon->sessions, false, all,
                                                all ? SESSIONS_SHOWN : 0, &counts, NULL);
    const unsigned long long frames = gsp_frames_log_next_id(daemon->frames) - 1;
    gsp_buf_printf(out, "<p>%zu session%s, %zu of them active; %llu frame%s.</p>\n", counts.total,
                   gsp_model_plural_s(counts.total), counts.active, frames,
                   gsp_model_plural_s(frames));
    gsp_buf_puts(out, "<table><tr><th>session<th>state<th>frames<th>file</tr>\n");
    for (size_t i = 0; all && i < n; i++) {
        gsp_buf_puts(out, "<tr><td>");
        gsp_buf_xml(out, gsp_sv_of(all[i].name));
        gsp_buf_printf(out, "<td>%s<td>%llu<td>", all[i].active ? "active" : "done",
                       (unsigned long long)all[i].frame_count);
        gsp_buf_xml(out, gsp_sv_of(all[i].file));
        gsp_buf_puts(out, "</tr>\n");
    }
    gsp_buf_puts(out, "</table>\n");
    free(all);
}

void gsp_daemon__route_root(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    const bool is_trusted = call->request->trust != GSP_HTTP_ANONYMOUS;
    put_head(daemon, &answer->body);
    if (!is_trusted)
        put_form(&answer->body);
    if (!is_trusted && daemon->token)
        return;
    put_links(is_trusted, &answer->body);
    put_sessions(daemon, &answer->body);
}

/* Reads the code of a form ("code=abcd-efgh") or of an object. Fails with USAGE, FORMAT. */
static int read_code(const struct gsp_route_call *call, struct gsp_sv *out, struct gsp_err *err)
{
    struct gsp_sv form = call->request->body;
    if (call->body) {
        const int rc = gsp_http_body_text(call->body, "code", out, err);
        return rc ? rc : gsp_err_set(err, GSP_E_USAGE, 0, "code is missing");
    }
    const size_t skip = sizeof(GSP_FORM_FIELD) - 1;
    *out = (struct gsp_sv){form.p + skip, form.len - skip};
    return GSP_OK;
}

/* The answer to a form: the page again, with the cookie or with the reason. */
static void answer_form(struct gsp_daemon *daemon, const struct gsp_err *err,
                        struct gsp_http_answer *answer)
{
    answer->content_type = "text/html; charset=utf-8";
    if (!err->code) {
        answer->status = 303;
        answer->location = "/";
        return;
    }
    answer->status = gsp_err_http_status(err->code);
    put_head(daemon, &answer->body);
    gsp_buf_puts(&answer->body, "<p>The login failed: ");
    gsp_buf_xml(&answer->body, gsp_sv_of(err->msg));
    gsp_buf_puts(&answer->body, ".</p>\n");
    put_form(&answer->body);
}

void gsp_daemon__route_login(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    char cookie[GSP_HTTP_COOKIE_BYTES];
    struct gsp_sv code = {0};
    struct gsp_err err = {0};
    struct gsp_json json;
    int rc = read_code(call, &code, &err);
    if (rc >= 0)
        rc = gsp_http_login(call->daemon->server, code, cookie, &err);
    if (rc >= 0) {
        answer->cookie = strdup(cookie);
        if (!answer->cookie)
            rc = gsp_err_nomem(&err);
    }
    if (!call->body) {
        answer_form(call->daemon, &err, answer);
    } else if (rc < 0) {
        gsp_daemon__routes_fail(answer, &err, gsp_daemon__hint(GSP_HINT_LOGIN));
    } else {
        gsp_json_init(&json, &answer->body);
        gsp_json_obj_begin(&json);
        gsp_json_put_bool(&json, "success", true);
        gsp_json_put_i64(&json, "hours", GSP_HTTP_LOGIN_HOURS);
        gsp_json_obj_end(&json);
    }
}

void gsp_daemon__route_login_code(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    char code[GSP_HTTP_CODE_BYTES];
    struct gsp_err err = {0};
    struct gsp_json json;
    if (gsp_http_login_code(call->daemon->server, code, &err) < 0) {
        gsp_daemon__routes_fail(answer, &err, NULL);
        return;
    }
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "code", code);
    gsp_json_put_str(&json, "url", call->daemon->url);
    gsp_json_obj_end(&json);
}
