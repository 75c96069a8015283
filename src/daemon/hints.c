/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hints.h"

#include <string.h>

#include "base/assert.h"
#include "daemon/settings.h"

/* Names of active sessions in a hint. */
#define NAMES_MAX 20U

const char *gsp_daemon__hint(enum gsp_daemon_hint hint)
{
    /* NOLINTBEGIN(bugprone-suspicious-missing-comma): long texts have two parts. */
    static const char *const TEXTS[GSP_HINT_COUNT] = {
        [GSP_HINT_ALLOW_CONTROL] = "start the daemon with --allow-control, or run gsprof as the "
                                   "daemon's user, which uses its Unix socket",
        [GSP_HINT_BODY] = "send a JSON object",
        [GSP_HINT_FILE_RETRY] = "the session is kept, and the daemon tries to write its file again",
        [GSP_HINT_FLAMEGRAPH] = "add ?session=NAME or ?pid=PID; GET /targets lists recordings",
        [GSP_HINT_NEW_NAME] = "stop the session first, or use another name",
        [GSP_HINT_PATHS] = "GET /openapi.json lists all paths",
        [GSP_HINT_PID] = "pid must be a number",
        [GSP_HINT_QUERY_BODY] = "send {\"sql\": \"SELECT ...\"}",
        [GSP_HINT_QUERY_LIMITS] = "select less, or raise the settings gsprof.query_*",
        [GSP_HINT_RECORDINGS] = "POST /targets/PID/record starts a recording; "
                                "GET /targets lists all",
        [GSP_HINT_RETRY] = "try again in a moment",
        [GSP_HINT_SESSION_NAME] = "a name has at most 200 bytes of UTF-8 without '/' and control "
                                  "characters, and does not start with a dot",
        [GSP_HINT_SESSIONS] = "GET /profiling/sessions lists all sessions",
        [GSP_HINT_SETTING_VALUE] = "GET /config lists the type of each setting",
        [GSP_HINT_SHARE] =
            "stop or delete sessions over the Unix socket or with the token, or start this one as "
            "the daemon's user, whose sessions have no share: gsprof http-profile uses the Unix "
            "socket",
        [GSP_HINT_STACK_FILES] = "GET /profiling/sessions/NAME lists the stack files",
        [GSP_HINT_STOP_FIRST] = "stop the session first",
        [GSP_HINT_TARGET_PATH] = "the path is /targets/PID/...",
        [GSP_HINT_TOKEN] = "send the header \"Authorization: Bearer TOKEN\", or log in: gsprof "
                           "http-login prints a code for the page",
        [GSP_HINT_TRUST] =
            "run gsprof as the daemon's user, which uses its Unix socket, or log in: "
            "gsprof http-login prints a code for the page",
        [GSP_HINT_LOGIN] = "gsprof http-login prints a new code",
        [GSP_HINT_TOKEN_MODE] = "chmod 600 makes it private",
    };
    /* NOLINTEND(bugprone-suspicious-missing-comma) */
    gsp_assert(hint < GSP_HINT_COUNT && TEXTS[hint]);
    return TEXTS[hint];
}

const char *gsp_daemon__hint_for_error(int code)
{
    switch (code) {
    case GSP_E_USAGE:
        return "GET /openapi.json describes each request";
    case GSP_E_NOPROC:
        return "gsprof list shows the processes that gsprof can read";
    case GSP_E_PERM:
        return "gsprof doctor shows what is permitted here";
    case GSP_E_NOTSUP:
        return "gsprof doctor shows what works here";
    case GSP_E_NOWRITE:
        return "GET /status shows the output folder and the failed sessions";
    default:
        return NULL;
    }
}

const char *gsp_daemon__hint_for_refusal(const char *code)
{
    static const struct {
        const char *code;
        const char *hint;
    } HINTS[] = {
        {"BUSY", "try again in a moment"},
        {"HOST", "use localhost or 127.0.0.1, or serve with a token"},
        {"LIMIT", "send at most one megabyte"},
        {"HTTP", "send the request as RFC 9112 defines it"},
        {"ORIGIN", "open the page from this server, or send the request without a browser"},
    };
    for (size_t i = 0; i < GSP_COUNT(HINTS); i++)
        if (strcmp(HINTS[i].code, code) == 0)
            return HINTS[i].hint;
    return NULL;
}

void gsp_daemon__hint_active(const struct gsp_session *all, size_t count, struct gsp_buf *out)
{
    if (!count || !all[0].active)
        gsp_buf_puts(out, "no session is active");
    for (size_t i = 0; i < count && i < NAMES_MAX && all[i].active; i++)
        gsp_buf_printf(out, "%s%s", i ? ", " : "active: ", all[i].name);
}

void gsp_daemon__hint_partly_stopped(size_t stopped, struct gsp_buf *out)
{
    gsp_buf_printf(out,
                   "%zu stopped; the others are kept, and the daemon tries to write their files "
                   "again",
                   stopped);
}

void gsp_daemon__hint_unknown_setting(struct gsp_sv name, struct gsp_buf *out)
{
    const char *nearest = gsp_daemon__setting_nearest(name);
    if (nearest)
        gsp_buf_printf(out, "did you mean " GSP_SETTING_PREFIX "%s?", nearest);
    else
        gsp_buf_puts(out, "GET /config lists all settings");
}

void gsp_daemon__hint_fixed_setting(size_t setting, struct gsp_buf *out)
{
    char variable[GSP_SETTING_VARIABLE_MAX];
    gsp_daemon_setting_variable(gsp_daemon__setting_at(setting)->name, variable);
    gsp_buf_printf(out, "set it in config.toml or as %s, and restart the daemon", variable);
}

void gsp_daemon__hint_query(double line, double column, struct gsp_sv candidate,
                            struct gsp_buf *out)
{
    if (line > 0)
        gsp_buf_printf(out, "line %.0f, column %.0f", line, column);
    if (!candidate.len)
        return;
    gsp_buf_puts(out, line > 0 ? "; did you mean " : "did you mean ");
    gsp_buf_putsv(out, candidate);
    gsp_buf_putc(out, '?');
}
