/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "client/client.h"
#include "client/listener.h"

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

/* Whether the token of the configuration, which the user has not given to this command, may be
 * sent. Another user may listen on the port. */
static int may_send(const struct gsp_client_tokens *tokens, const char *endpoint, bool *out,
                    struct gsp_err *err)
{
    uid_t uid = 0;
    *out = strncmp(endpoint, "unix:", 5) == 0;
    int family = AF_UNSPEC;
    const int64_t port = *out ? -1 : gsp_client__local_port(endpoint, &family);
    if (port < 0)
        return GSP_OK;
    const enum gsp_listener listener = gsp_client__listener_find((uint16_t)port, family, &uid);
    *out = listener == GSP_LISTENER_OURS;
    if (listener != GSP_LISTENER_OTHER || access(tokens->config, F_OK) != 0)
        return GSP_OK;
    gsp_err_fill(err, GSP_E_PERM, 0, "port %u belongs to user %u, not to you", (unsigned)port,
                 (unsigned)uid);
    gsp_err_set_reason(err, GSP_REASON_LISTENER);
    return GSP_E_PERM;
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
    bool may = false;
    struct gsp_err why = {0};
    int rc = tokens->config ? may_send(tokens, endpoint, &may, err) : GSP_OK;
    if (rc < 0 || !may)
        return rc;
    rc = add_from_file(tokens->config, out, &why);
    if (rc == GSP_OK || rc == GSP_E_NOFILE)
        return GSP_OK;
    if (err)
        *err = why;
    return rc;
}
