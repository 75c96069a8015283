/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "base/xdg.h"
#include "cli/hint.h"
#include "client/client.h"
#include "client/json_rows.h"
#include "client/query.h"
#include "client/tables.h"
#include "source/endpoint.h"

/* The server ends a query at its time limit. The client waits longer, to receive that answer. */
#define GRACE_NS         (5 * GSP_NS_PER_S)
/* The narrowest useful column for the meaning of a setting. */
#define SETTING_TEXT_MIN 24U

static int fail(const struct gsp_remote *remote, const struct gsp_client_refusal *refusal,
                const struct gsp_err *err)
{
    struct gsp_hint_context context = {.server = remote->endpoint.len ? remote->endpoint.p : "",
                                       .server_status = refusal->status,
                                       .server_code = refusal->code,
                                       .server_hint = refusal->hint,
                                       .has_token = remote->token.len > 0};
    return gsp_cli__fail(remote->parsed, &context, err);
}

bool gsp_cli__remote_is_address(const char *text)
{
    return strncmp(text, "unix:", 5) == 0 || strncmp(text, "http://", 7) == 0 ||
           (gsp_source_endpoint_is_address(text) && access(text, F_OK) != 0);
}

int gsp_cli__remote_open(struct gsp_remote *remote, const struct gsp_parsed *parsed,
                         const char *text, const struct gsp_remote_opts *opts)
{
    struct gsp_err err = {0};
    char config[PATH_MAX];
    *remote = (struct gsp_remote){.parsed = parsed};
    struct gsp_client_tokens tokens = {
        .given = opts->token,
        .file = opts->token_file,
        .environment = getenv("GSPROF_TOKEN"),
        .config = gsp_xdg_path(GSP_XDG_CONFIG, "token", config, sizeof(config)) ? config : NULL,
    };
    if (opts->token && opts->token_file)
        return gsp_cli__misuse(parsed, "--token and --token-file exclude each other");
    if (gsp_client_endpoint(text, &remote->endpoint, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    if (!opts->token && !opts->token_file)
        gsp_client_own_socket(remote->endpoint.p, &remote->own_socket);
    if (remote->own_socket.len)
        tokens.config = NULL; /* not necessary */
    if (gsp_client_token(&tokens, remote->endpoint.p, &remote->token, &err) == GSP_OK)
        return 0;
    if (err.reason == GSP_REASON_LISTENER)
        return gsp_cli__remote_fail(remote, &err);
    return err.code == GSP_E_USAGE
               ? gsp_cli__misuse(parsed, "%s", err.msg)
               : gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->token_file}, &err);
}

void gsp_cli__remote_close(struct gsp_remote *remote)
{
    gsp_buf_free(&remote->endpoint);
    gsp_buf_free(&remote->own_socket);
    gsp_buf_free(&remote->token);
    gsp_buf_free(&remote->answer);
}

int gsp_cli__remote_fail(const struct gsp_remote *remote, const struct gsp_err *err)
{
    return fail(remote, &(struct gsp_client_refusal){0}, err);
}

static int request(struct gsp_remote *remote, const char *method, const char *path,
                   struct gsp_sv body, struct gsp_client_refusal *refusal, struct gsp_err *err)
{
    const struct gsp_client_call call = {.endpoint = remote->own_socket.len ? remote->own_socket.p
                                                                            : remote->endpoint.p,
                                         .token = remote->token.len ? remote->token.p : NULL,
                                         .method = method,
                                         .path = path,
                                         .body = body,
                                         .timeout_ns = remote->timeout_ns,
                                         .cancel = remote->cancel};
    gsp_buf_clear(&remote->answer);
    return gsp_client_request(&call, &remote->answer, refusal, err);
}

int gsp_cli__remote_request(struct gsp_remote *remote, const char *method, const char *path,
                            struct gsp_sv body)
{
    struct gsp_client_refusal refusal = {0};
    struct gsp_err err = {0};
    if (request(remote, method, path, body, &refusal, &err) == GSP_OK)
        return 0;
    return fail(remote, &refusal, &err);
}

int gsp_cli__remote_request_object(struct gsp_remote *remote, const char *method, const char *path,
                                   struct gsp_sv body, struct gsp_body **out)
{
    struct gsp_err err = {0};
    struct gsp_err why = {0};
    *out = NULL;
    int status = gsp_cli__remote_request(remote, method, path, body);
    if (status)
        return status;
    if (gsp_http_body_read(gsp_buf_sv(&remote->answer), out, &why) == GSP_OK)
        return 0;
    gsp_err_fill(&err, GSP_E_FORMAT, 0, "%.100s does not answer like gsprof serve: %.100s",
                 remote->endpoint.p, why.msg);
    return gsp_cli__remote_fail(remote, &err);
}

int gsp_cli__remote_put_json(const struct gsp_remote *remote)
{
    gsp_auto_buf text = {0};
    struct gsp_err err = {0};
    gsp_buf_putsv(&text, gsp_buf_sv(&remote->answer));
    if (!gsp_sv_ends(gsp_buf_sv(&text), "\n"))
        gsp_buf_putc(&text, '\n');
    const int rc = text.failed ? gsp_err_nomem(&err)
                               : gsp_fd_write_text(STDOUT_FILENO, gsp_buf_sv(&text), false, &err);
    if (rc == GSP_OK)
        return 0;
    return gsp_cli__fail(remote->parsed, &(struct gsp_hint_context){0}, &err);
}

/* Prints and frees a table. whole and text_min: see struct gsp_rows_dest. */
static int show_table(const struct gsp_remote *remote, struct gsp_row_list *table, unsigned whole,
                      unsigned text_min, struct gsp_err *err)
{
    const struct gsp_rows_dest dest = {.format = GSP_ROWS_TABLE,
                                       .color = remote->parsed->globals.color,
                                       .whole = whole,
                                       .text_min = text_min};
    int rc = gsp_cli__put_rows(gsp_model_row_list_rows(table), &dest, err);
    gsp_rows_free(gsp_model_row_list_rows(table));
    return rc < 0 ? rc : 1;
}

int gsp_cli__remote_show_members(const struct gsp_remote *remote, const struct gsp_body *body,
                                 const char *const *skip, const char *prefix, struct gsp_err *err)
{
    struct gsp_row_list *table = NULL;
    int rc = gsp_client_members_table(body, skip, prefix, &table, err);
    return rc <= 0 ? rc : show_table(remote, table, 1, 0, err);
}

int gsp_cli__remote_show_settings(const struct gsp_remote *remote, const struct gsp_body *body,
                                  const char *name, const char *prefix, struct gsp_err *err)
{
    struct gsp_row_list *table = NULL;
    int rc = gsp_client_settings_table(body, name, prefix, &table, err);
    return rc <= 0 ? rc : show_table(remote, table, 1, SETTING_TEXT_MIN, err);
}

int gsp_cli__remote_show_sessions(const struct gsp_remote *remote, const struct gsp_body *body,
                                  const char *name, struct gsp_err *err)
{
    struct gsp_row_list *table = NULL;
    int rc = gsp_client_sessions_table(body, name, &table, err);
    return rc <= 0 ? rc : show_table(remote, table, 5, 0, err); /* 5: from the name to the frames */
}

/* Prints one warning for each line. */
static void print_warnings(const struct gsp_remote *remote, const struct gsp_buf *lines)
{
    struct gsp_sv rest = gsp_buf_sv(lines);
    struct gsp_sv line;
    while (gsp_sv_split(&rest, '\n', &line))
        if (line.len)
            gsp_cli__warn(remote->parsed, line);
}

static int put_answer(const struct gsp_rows_dest *dest, const struct gsp_remote *remote,
                      struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    gsp_auto_buf warnings = {0};
    /* Other formats are written by the server, which knows all types, and only copied here. */
    if (dest->format != GSP_ROWS_TABLE && (!dest->path || strcmp(dest->path, "-") == 0))
        return gsp_fd_write_text(STDOUT_FILENO, gsp_buf_sv(&remote->answer), false, err);
    if (dest->format != GSP_ROWS_TABLE)
        return gsp_file_put(dest->path, dest->force, &remote->answer, err);
    int rc = gsp_client_rows_from_json(gsp_buf_sv(&remote->answer), &warnings, &rows, err);
    if (rc == GSP_OK)
        rc = gsp_cli__put_rows(rows, dest, err);
    gsp_rows_free(rows);
    print_warnings(remote, &warnings);
    return rc;
}

int gsp_cli__remote_query_open(struct gsp_remote *remote, const struct gsp_parsed *parsed,
                               const char *text, const struct gsp_remote_opts *opts,
                               int64_t timeout_ns)
{
    int status = gsp_cli__remote_open(remote, parsed, text, opts);
    if (status == 0)
        status = gsp_cli__remote_request(remote, "GET", "/status", (struct gsp_sv){NULL, 0});
    if (timeout_ns)
        remote->timeout_ns = timeout_ns + GRACE_NS;
    return status;
}

int gsp_cli__query_remote_statement(struct gsp_remote *remote, struct gsp_sv sql,
                                    const struct gsp_params *params,
                                    const struct gsp_rows_dest *dest)
{
    gsp_auto_buf body = {0};
    struct gsp_err err = {0};
    /* "object" has the names of the columns even without rows. */
    const char *format =
        dest->format == GSP_ROWS_TABLE ? "object" : gsp_cli__rows_format_choice(dest->format);
    gsp_client_query_body(sql, params, format, &body);
    int status = gsp_cli__remote_request(remote, "POST", "/query", gsp_buf_sv(&body));
    if (status == 0 && put_answer(dest, remote, &err) < 0)
        status =
            gsp_cli__fail(remote->parsed, &(struct gsp_hint_context){.path = dest->path}, &err);
    return status;
}

int gsp_cli__remote_query_rows(struct gsp_remote *remote, struct gsp_sv sql, struct gsp_rows **out,
                               struct gsp_err *err)
{
    gsp_auto_buf body = {0};
    *out = NULL;
    gsp_client_query_body(sql, NULL, "json", &body);
    int rc = request(remote, "POST", "/query", gsp_buf_sv(&body), NULL, err);
    return rc < 0 ? rc : gsp_client_rows_from_json(gsp_buf_sv(&remote->answer), NULL, out, err);
}

int gsp_cli__remote_query_run(const struct gsp_remote_query *query)
{
    const struct gsp_parsed *parsed = query->parsed;
    struct gsp_remote remote = {0};
    struct gsp_err err = {0};
    if (query->dest.format == GSP_ROWS_PARQUET)
        return gsp_cli__misuse(parsed, "a server writes json, csv, csv-raw or arrow, not parquet");
    if (query->dest.path && gsp_file_check_new(query->dest.path, query->dest.force, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = query->dest.path}, &err);
    int status = gsp_cli__remote_open(&remote, parsed, parsed->args[0], &query->remote);
    remote.timeout_ns = query->timeout_ns + GRACE_NS;
    if (status == 0)
        status = gsp_cli__query_remote_statement(&remote, query->sql, &query->params, &query->dest);
    gsp_cli__remote_close(&remote);
    return status;
}
