/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "client/client.h"

#define TOKEN_MAX 4096U

/* A token travels in a header: nothing in it may end the line. */
static int check(struct gsp_sv token, const char *where, struct gsp_err *err)
{
    if (token.len == 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.160s: there is no token in it", where);
    for (size_t i = 0; i < token.len; i++) {
        if (token.p[i] <= ' ' || token.p[i] > '~')
            return gsp_err_set(err, GSP_E_USAGE, 0,
                               "%.160s: a token is one word of plain characters", where);
    }
    return GSP_OK;
}

static int take(struct gsp_sv token, const char *where, struct gsp_buf *out, struct gsp_err *err)
{
    while (token.len && isspace((unsigned char)token.p[token.len - 1]))
        token.len--;
    while (token.len && isspace((unsigned char)token.p[0]))
        token = (struct gsp_sv){token.p + 1, token.len - 1};
    int rc = check(token, where, err);
    if (rc < 0)
        return rc;
    gsp_buf_putsv(out, token);
    return gsp_buf_cstr(out) ? GSP_OK : gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
}

static int take_file(const char *path, struct gsp_buf *out, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    int rc = gsp_file_read(path, TOKEN_MAX, &text, err);
    return rc < 0 ? rc : take(gsp_buf_sv(&text), path, out, err);
}

/* Whether an endpoint is this machine, by what it says. */
static bool is_near(const char *endpoint)
{
    static const char *const NAMES[] = {"localhost", "127.0.0.1", "[::1]"};
    if (strncmp(endpoint, "unix:", 5) == 0)
        return true;
    if (strncmp(endpoint, "http://", 7) == 0)
        endpoint += 7;
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++) {
        size_t len = strlen(NAMES[i]);
        char after = strncasecmp(endpoint, NAMES[i], len) == 0 ? endpoint[len] : 'x';
        if (after == '\0' || after == ':' || after == '/')
            return true;
    }
    return false;
}

int gsp_client_token(const struct gsp_client_tokens *tokens, const char *endpoint,
                     struct gsp_buf *out, struct gsp_err *err)
{
    if (tokens->given)
        return take(gsp_sv_of(tokens->given), "--token", out, err);
    if (tokens->file)
        return take_file(tokens->file, out, err);
    if (tokens->environment && tokens->environment[0])
        return take(gsp_sv_of(tokens->environment), "GSPROF_TOKEN", out, err);
    if (!is_near(endpoint))
        return GSP_OK;
    gsp_auto_buf path = {0};
    if (tokens->config_home && tokens->config_home[0] == '/')
        gsp_buf_printf(&path, "%s/gsprof/token", tokens->config_home);
    else if (tokens->home && tokens->home[0] == '/')
        gsp_buf_printf(&path, "%s/.config/gsprof/token", tokens->home);
    const char *name = gsp_buf_cstr(&path);
    struct gsp_err why = {0};
    if (!name || name[0] == '\0')
        return GSP_OK;
    int rc = take_file(name, out, &why);
    /* Most people have none, and need none. */
    if (rc == GSP_OK || rc == GSP_E_NOFILE)
        return GSP_OK;
    if (err)
        *err = why;
    return rc;
}
