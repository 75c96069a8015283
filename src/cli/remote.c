/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/hint.h"
#include "client/client.h"

static int fail(const struct gsp_remote *remote, const struct gsp_client_refusal *refusal,
                const struct gsp_err *err)
{
    struct gsp_hint_context context = {.server = remote->endpoint.len ? remote->endpoint.p : "",
                                       .server_status = refusal->status,
                                       .server_code = refusal->code,
                                       .server_hint = refusal->hint,
                                       .has_token = remote->token.len > 0};
    return gsp_cli_fail(remote->parsed, &context, err);
}

int gsp_remote_open(struct gsp_remote *remote, const struct gsp_parsed *parsed, const char *word,
                    const struct gsp_remote_opts *opts)
{
    struct gsp_err err = {0};
    *remote = (struct gsp_remote){.parsed = parsed};
    const struct gsp_client_tokens tokens = {
        .given = opts->token,
        .file = opts->token_file,
        .environment = getenv("GSPROF_TOKEN"),
        .config_home = getenv("XDG_CONFIG_HOME"),
        .home = getenv("HOME"),
    };
    if (opts->token && opts->token_file)
        return gsp_cli_misuse(parsed, "the token is in --token or in --token-file, not both");
    if (gsp_client_endpoint(word, &remote->endpoint, &err) < 0)
        return gsp_cli_misuse(parsed, "%s", err.msg);
    if (gsp_client_token(&tokens, remote->endpoint.p, &remote->token, &err) == GSP_OK)
        return 0;
    return err.code == GSP_E_USAGE
               ? gsp_cli_misuse(parsed, "%s", err.msg)
               : gsp_cli_fail(parsed, &(struct gsp_hint_context){.path = opts->token_file}, &err);
}

void gsp_remote_close(struct gsp_remote *remote)
{
    gsp_buf_free(&remote->endpoint);
    gsp_buf_free(&remote->token);
    gsp_buf_free(&remote->answer);
}

int gsp_remote_fail(const struct gsp_remote *remote, const struct gsp_err *err)
{
    return fail(remote, &(struct gsp_client_refusal){0}, err);
}

static int ask(struct gsp_remote *remote, const char *method, const char *path, struct gsp_sv body,
               struct gsp_client_refusal *refusal, struct gsp_err *err)
{
    const struct gsp_client_call call = {.endpoint = remote->endpoint.p,
                                         .token = remote->token.len ? remote->token.p : NULL,
                                         .method = method,
                                         .path = path,
                                         .body = body,
                                         .timeout_ns = remote->timeout_ns,
                                         .cancel = remote->cancel};
    gsp_buf_clear(&remote->answer);
    return gsp_client_ask(&call, &remote->answer, refusal, err);
}

int gsp_remote_try(struct gsp_remote *remote, const char *method, const char *path,
                   struct gsp_sv body, struct gsp_err *err)
{
    return ask(remote, method, path, body, NULL, err);
}

int gsp_remote_ask(struct gsp_remote *remote, const char *method, const char *path,
                   struct gsp_sv body)
{
    struct gsp_client_refusal refusal = {0};
    struct gsp_err err = {0};
    if (ask(remote, method, path, body, &refusal, &err) == GSP_OK)
        return 0;
    return fail(remote, &refusal, &err);
}

int gsp_remote_ask_object(struct gsp_remote *remote, const char *method, const char *path,
                          struct gsp_sv body, struct gsp_body **out)
{
    struct gsp_err err = {0};
    *out = NULL;
    int status = gsp_remote_ask(remote, method, path, body);
    if (status)
        return status;
    if (gsp_http_body_read(gsp_buf_sv(&remote->answer), out, &err) == GSP_OK)
        return 0;
    struct gsp_err told = {0};
    gsp_err_fill(&told, GSP_E_FORMAT, 0, "%.100s does not answer as gsprof serve does: %.100s",
                 remote->endpoint.p, err.msg);
    return gsp_remote_fail(remote, &told);
}

int gsp_remote_put_json(const struct gsp_remote *remote)
{
    gsp_auto_buf text = {0};
    struct gsp_err err = {0};
    gsp_buf_putsv(&text, gsp_buf_sv(&remote->answer));
    if (!gsp_sv_ends(gsp_buf_sv(&text), "\n"))
        gsp_buf_putc(&text, '\n');
    if (gsp_file_put(NULL, false, &text, &err) == GSP_OK)
        return 0;
    return gsp_cli_fail(remote->parsed, &(struct gsp_hint_context){0}, &err);
}
