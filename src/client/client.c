/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"

#include <stdio.h>
#include <string.h>

#include "http/body.h"
#include "http/client.h"

#define PORT_MAX 65535

static bool is_digits(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether the host has a port already: "host:1", "[::1]:1", but not "[::1]". */
static bool has_port(const char *host)
{
    const char *colon = strrchr(host, ':');
    const char *bracket = strrchr(host, ']');
    return colon && (!bracket || bracket < colon);
}

int gsp_client_endpoint(const char *text, struct gsp_buf *out, struct gsp_err *err)
{
    if (!text || text[0] == '\0')
        text = GSP_CLIENT_ENDPOINT;
    int64_t port = 0;
    if (strncmp(text, "unix:", 5) == 0 || strncmp(text, "http://", 7) == 0) {
        gsp_buf_puts(out, text);
    } else if (strncmp(text, "https://", 8) == 0) {
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.100s: gsprof serve supports http, not https",
                           text);
    } else if (is_digits(text)) {
        int rc = gsp_parse_i64(text, 1, PORT_MAX, &port, err);
        if (rc < 0)
            return rc;
        gsp_buf_printf(out, "localhost:%s", text);
    } else if (text[0] == ':' && is_digits(text + 1)) {
        gsp_buf_printf(out, "localhost%s", text);
    } else {
        gsp_buf_puts(out, text);
        if (!has_port(text))
            gsp_buf_puts(out, ":" GSP_CLIENT_PORT);
    }
    return gsp_buf_cstr(out) ? GSP_OK : gsp_err_nomem(err);
}

/* The error code for an HTTP status. 404 stands for two codes, which the name distinguishes. */
static int code_of(int status, const char *name)
{
    static const struct {
        int status;
        int code;
    } CODES[] = {
        {400, GSP_E_USAGE}, {401, GSP_E_PERM},   {403, GSP_E_PERM},    {404, GSP_E_NOFILE},
        {405, GSP_E_USAGE}, {409, GSP_E_EXISTS}, {413, GSP_E_LIMIT},   {422, GSP_E_USAGE},
        {429, GSP_E_LIMIT}, {501, GSP_E_NOTSUP}, {504, GSP_E_TIMEOUT},
    };
    if (strcmp(name, gsp_err_name(GSP_E_NOPROC)) == 0)
        return GSP_E_NOPROC;
    for (size_t i = 0; i < GSP_COUNT(CODES); i++)
        if (CODES[i].status == status)
            return CODES[i].code;
    return GSP_E_IO;
}

static void copy_text(const struct gsp_body *body, const char *name, char *out, size_t cap)
{
    struct gsp_sv text = {0};
    if (gsp_http_body_text(body, name, &text, NULL) == 1)
        snprintf(out, cap, "%.*s", (int)(text.len < cap ? text.len : cap), text.p);
}

/* Reads {"error": {"code", "message", "hint"}}. Returns false if the answer has another form. */
static bool read_refusal(struct gsp_sv text, struct gsp_client_refusal *refusal, char *message,
                         size_t cap)
{
    gsp_auto_buf inner = {0};
    struct gsp_body *outer = NULL;
    struct gsp_body *error = NULL;
    if (gsp_http_body_read(text, &outer, NULL) == GSP_OK &&
        gsp_http_body_object(outer, "error", &inner, NULL) == 1 &&
        gsp_http_body_read(gsp_buf_sv(&inner), &error, NULL) == GSP_OK) {
        copy_text(error, "code", refusal->code, sizeof(refusal->code));
        copy_text(error, "message", message, cap);
        copy_text(error, "hint", refusal->hint, sizeof(refusal->hint));
    }
    gsp_http_body_free(error);
    gsp_http_body_free(outer);
    return message[0] != '\0';
}

static int fail_with(const struct gsp_client_call *call, const struct gsp_http_client_answer *reply,
                     struct gsp_client_refusal *refusal, struct gsp_err *err)
{
    char message[200] = "";
    refusal->status = reply->status;
    if (read_refusal(gsp_buf_sv(&reply->body), refusal, message, sizeof(message)))
        return gsp_err_set(err, code_of(reply->status, refusal->code), 0, "%s", message);
    /* Probably another kind of server. */
    return gsp_err_set(err, GSP_E_FORMAT, 0, "%.120s is not a gsprof server: it answers %s with %d",
                       call->endpoint, call->path, reply->status);
}

int gsp_client_request(const struct gsp_client_call *call, struct gsp_buf *out,
                       struct gsp_client_refusal *refusal, struct gsp_err *err)
{
    struct gsp_client_refusal none;
    if (!refusal)
        refusal = &none;
    *refusal = (struct gsp_client_refusal){0};
    const struct gsp_http_client_request http = {
        .method = call->method,
        .endpoint = call->endpoint,
        .path = call->path,
        .token = call->token && call->token[0] ? call->token : NULL,
        .body = call->body,
        .timeout_ns = call->timeout_ns,
        .answer_max = call->answer_max,
        .cancel = call->cancel};
    struct gsp_http_client_answer reply;
    int rc = gsp_http_request(&http, &reply, err);
    if (rc < 0)
        return rc;
    if (reply.status < 200 || reply.status > 299)
        rc = fail_with(call, &reply, refusal, err);
    else
        gsp_buf_putsv(out, gsp_buf_sv(&reply.body));
    gsp_buf_free(&reply.body);
    if (rc == GSP_OK && out->failed)
        rc = gsp_err_nomem(err);
    return rc;
}
