/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/hint.h"

/* Copies text from a server, without control characters. */
static void put_safe(char *out, size_t cap, const char *text)
{
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, gsp_sv_of(text));
    const char *line = gsp_buf_cstr(&safe);
    snprintf(out, cap, "%s", line ? line : "");
}

static bool is_local(const char *server)
{
    static const char *const NAMES[] = {"localhost:", "127.", "[::1]", "unix:"};
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        if (strncmp(server, NAMES[i], strlen(NAMES[i])) == 0)
            return true;
    return false;
}

/* " --port 9000" unless it is the default port of serve. */
static void put_port(const char *server, char *out, size_t cap)
{
    const char *colon = strrchr(server, ':');
    out[0] = '\0';
    if (colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
        strcmp(colon + 1, "8091") != 0)
        snprintf(out, cap, " --port %.5s", colon + 1);
}

static void hint_unreachable(const struct gsp_hint_context *context, struct gsp_hint *out)
{
    char port[24];
    put_port(context->server, port, sizeof(port));
    if (strncmp(context->server, "unix:", 5) == 0) {
        snprintf(out->why, sizeof(out->why), "no server listens on that socket");
        gsp_cli__hint_add(out, "starts a server", "gsprof serve --socket %s --background",
                          context->server + strlen("unix:"));
        return;
    }
    if (is_local(context->server)) {
        snprintf(out->why, sizeof(out->why), "no server is running, or it uses another port");
        gsp_cli__hint_add(out, "starts a server", "gsprof serve%s --background", port);
        gsp_cli__hint_add(out, "lists listening ports", "ss -ltnp");
        return;
    }
    snprintf(out->why, sizeof(out->why),
             "no server is running there, or it uses another port or accepts only local requests");
    gsp_cli__hint_add(out, "on that machine; needs a token",
                      "gsprof serve --bind 0.0.0.0%s --token-file FILE", port);
}

static void hint_refused(const struct gsp_err *err, const struct gsp_hint_context *context,
                         struct gsp_hint *out)
{
    if (err->code == GSP_E_NOPROC) {
        gsp_cli__hint_add(out, "on that machine: lists processes", "gsprof list");
        return;
    }
    /* For 401 the server explains the HTTP header; this command has options for it. */
    if (context->server_hint && context->server_hint[0] && context->server_status != 401)
        put_safe(out->why, sizeof(out->why), context->server_hint);
    switch (context->server_status) {
    case 401:
        if (!out->why[0])
            snprintf(out->why, sizeof(out->why), "%s",
                     context->has_token ? "the token does not match the server's"
                                        : "the server requires a token, and none was given");
        gsp_cli__hint_add(out, "the file given to serve", "gsprof %s %s --token-file FILE",
                          context->command ? context->command : "http-status", context->server);
        gsp_cli__hint_add(out, "for all commands of this shell", "export GSPROF_TOKEN=...");
        break;
    case 400:
        if (context->command && strcmp(context->command, "config") == 0)
            gsp_cli__hint_add(out, "lists the settings", "gsprof config %s", context->server);
        else if (context->command && strncmp(context->command, "http-", 5) == 0)
            gsp_cli__hint_add(out, "", "gsprof %s --help", context->command);
        break;
    case 403:
        if (context->server_code && strcmp(context->server_code, "CONTROL") == 0)
            gsp_cli__hint_add(out, "on that machine", "gsprof serve --allow-control");
        break;
    case 404:
        gsp_cli__hint_add(out, "lists the sessions", "gsprof http-sessions %s", context->server);
        break;
    case 409:
        gsp_cli__hint_add(out, "lists the sessions", "gsprof http-sessions %s", context->server);
        gsp_cli__hint_add(out, "stops it and writes its file", "gsprof http-stop %s --name NAME",
                          context->server);
        break;
    default:
        break;
    }
}

static void hint_listener(const struct gsp_hint_context *context, struct gsp_hint *out)
{
    snprintf(out->why, sizeof(out->why),
             "the token of your configuration is not sent to a server of another user");
    gsp_cli__hint_add(out, "sends it nevertheless", "gsprof %s %s --token-file FILE",
                      context->command ? context->command : "http-status", context->server);
    gsp_cli__hint_add(out, "starts your own daemon", "gsprof serve --port 0");
}

void gsp_cli__hint_http(const struct gsp_err *err, const struct gsp_hint_context *context,
                        struct gsp_hint *out)
{
    snprintf(out->what, sizeof(out->what), "%s", err->msg);
    if (context->server_status)
        hint_refused(err, context, out);
    else if (err->reason == GSP_REASON_LISTENER)
        hint_listener(context, out);
    else if (err->code == GSP_E_NOPROC)
        hint_unreachable(context, out);
    else if (err->code == GSP_E_TIMEOUT)
        gsp_cli__hint_add(out, "shows its state", "gsprof http-status %s", context->server);
}
