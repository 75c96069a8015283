/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "client/client.h"

#define TOKEN_MAX 4096U

/* A token is part of a header line, so it must not contain a line break. */
static int check(struct gsp_sv token, const char *where, struct gsp_err *err)
{
    if (token.len == 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.160s: the token is empty", where);
    for (size_t i = 0; i < token.len; i++) {
        if (token.p[i] <= ' ' || token.p[i] > '~')
            return gsp_err_set(err, GSP_E_USAGE, 0,
                               "%.160s: a token must be one word of printable ASCII characters",
                               where);
    }
    return GSP_OK;
}

static int add_trimmed(struct gsp_sv token, const char *where, struct gsp_buf *out,
                       struct gsp_err *err)
{
    while (token.len && isspace((unsigned char)token.p[token.len - 1]))
        token.len--;
    while (token.len && isspace((unsigned char)token.p[0]))
        token = (struct gsp_sv){token.p + 1, token.len - 1};
    int rc = check(token, where, err);
    if (rc < 0)
        return rc;
    gsp_buf_putsv(out, token);
    return gsp_buf_cstr(out) ? GSP_OK : gsp_err_nomem(err);
}

static int add_from_file(const char *path, struct gsp_buf *out, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    int rc = gsp_file_read(path, TOKEN_MAX, &text, err);
    return rc < 0 ? rc : add_trimmed(gsp_buf_sv(&text), path, out, err);
}

/* Whether an endpoint names this machine. */
static bool is_local(const char *endpoint)
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
        return add_trimmed(gsp_sv_of(tokens->given), "--token", out, err);
    if (tokens->file)
        return add_from_file(tokens->file, out, err);
    if (tokens->environment && tokens->environment[0])
        return add_trimmed(gsp_sv_of(tokens->environment), "GSPROF_TOKEN", out, err);
    if (!tokens->config || !is_local(endpoint))
        return GSP_OK;
    struct gsp_err why = {0};
    int rc = add_from_file(tokens->config, out, &why);
    if (rc == GSP_OK || rc == GSP_E_NOFILE)
        return GSP_OK;
    if (err)
        *err = why;
    return rc;
}
