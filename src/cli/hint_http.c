/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/hint.h"

/* What a server says is another's text: nothing in it may harm a terminal. */
static void put_safe(char *out, size_t cap, const char *text)
{
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, gsp_sv_of(text));
    const char *line = gsp_buf_cstr(&safe);
    snprintf(out, cap, "%s", line ? line : "");
}

static bool is_near(const char *server)
{
    static const char *const NAMES[] = {"localhost:", "127.", "[::1]", "unix:"};
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        if (strncmp(server, NAMES[i], strlen(NAMES[i])) == 0)
            return true;
    return false;
}

/* " --port 9000" when it is not the one that serve takes by itself. */
static void put_port(const char *server, char *out, size_t cap)
{
    const char *colon = strrchr(server, ':');
    out[0] = '\0';
    if (colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
        strcmp(colon + 1, "8091") != 0)
        snprintf(out, cap, " --port %.5s", colon + 1);
}

static void hint_nobody(const struct gsp_hint_context *context, struct gsp_hint *out)
{
    char port[24];
    put_port(context->server, port, sizeof(port));
    if (strncmp(context->server, "unix:", 5) == 0) {
        snprintf(out->why, sizeof(out->why), "no server has that socket");
        gsp_hint_add(out, "starts one", "gsprof serve --socket %s --background",
                     context->server + strlen("unix:"));
        return;
    }
    if (is_near(context->server)) {
        snprintf(out->why, sizeof(out->why), "no server runs here, or it has another port");
        gsp_hint_add(out, "starts one", "gsprof serve%s --background", port);
        gsp_hint_add(out, "what listens here", "ss -ltnp");
        return;
    }
    snprintf(out->why, sizeof(out->why),
             "no server runs there, or it has another port or listens to its own machine only");
    gsp_hint_add(out, "on that machine; a token is needed",
                 "gsprof serve --bind 0.0.0.0%s --token-file FILE", port);
}

static void hint_refused(const struct gsp_err *err, const struct gsp_hint_context *context,
                         struct gsp_hint *out)
{
    if (err->code == GSP_E_NOPROC) {
        gsp_hint_add(out, "on that machine: what runs", "gsprof list");
        return;
    }
    /* Of a token it tells how to write a request; here it is a matter of options. */
    if (context->server_hint && context->server_hint[0] && context->server_status != 401)
        put_safe(out->why, sizeof(out->why), context->server_hint);
    switch (context->server_status) {
    case 401:
        if (!out->why[0])
            snprintf(out->why, sizeof(out->why), "%s",
                     context->has_token ? "the server has another token than the one it was shown"
                                        : "the server wants a token, and none was given");
        gsp_hint_add(out, "the file that serve was started with", "gsprof %s %s --token-file FILE",
                     context->command ? context->command : "http-status", context->server);
        gsp_hint_add(out, "for all commands of this shell", "export GSPROF_TOKEN=...");
        break;
    case 400:
        if (context->command && strcmp(context->command, "config") == 0)
            gsp_hint_add(out, "all settings", "gsprof config %s", context->server);
        else if (context->command && strncmp(context->command, "http-", 5) == 0)
            gsp_hint_add(out, "", "gsprof %s --help", context->command);
        break;
    case 403:
        if (strstr(out->why, "--allow-control"))
            gsp_hint_add(out, "on that machine", "gsprof serve --allow-control");
        break;
    case 404:
        gsp_hint_add(out, "all sessions", "gsprof http-sessions %s", context->server);
        break;
    case 409:
        gsp_hint_add(out, "what is active", "gsprof http-sessions %s", context->server);
        gsp_hint_add(out, "ends it and writes its file", "gsprof http-stop %s --name NAME",
                     context->server);
        break;
    default:
        break;
    }
}

void gsp_hint__http(const struct gsp_err *err, const struct gsp_hint_context *context,
                    struct gsp_hint *out)
{
    snprintf(out->what, sizeof(out->what), "%s", err->msg);
    if (context->server_status)
        hint_refused(err, context, out);
    else if (err->code == GSP_E_NOPROC)
        hint_nobody(context, out);
    else if (err->code == GSP_E_TIMEOUT)
        gsp_hint_add(out, "whether it is well", "gsprof http-status %s", context->server);
}
