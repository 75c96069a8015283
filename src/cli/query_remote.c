/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/query_remote.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/hint.h"
#include "client/json_rows.h"
#include "source/endpoint.h"

/* The server ends a query by itself; its word should come before we stop to listen. */
#define GRACE_NS (5 * GSP_NS_PER_S)

bool gsp_query_is_remote(const char *word)
{
    return strncmp(word, "unix:", 5) == 0 || strncmp(word, "http://", 7) == 0 ||
           (gsp_endpoint_is_address(word) && access(word, F_OK) != 0);
}

static void put_param(struct gsp_json *json, const struct gsp_param *param)
{
    switch (param->kind) {
    case GSP_PARAM_NULL:
        gsp_json_null(json);
        break;
    case GSP_PARAM_BOOL:
        gsp_json_bool(json, param->truth);
        break;
    case GSP_PARAM_I64:
        gsp_json_i64(json, param->whole);
        break;
    case GSP_PARAM_F64:
        gsp_json_f64(json, param->number);
        break;
    case GSP_PARAM_TEXT:
        gsp_json_sv(json, param->text);
        break;
    }
}

static void put_params(struct gsp_json *json, const struct gsp_params *params)
{
    const bool named = params->at[0].name.p != NULL;
    gsp_json_key(json, "params");
    if (named)
        gsp_json_obj_begin(json);
    else
        gsp_json_arr_begin(json);
    for (size_t i = 0; i < params->count; i++) {
        if (named)
            gsp_json_keysv(json, params->at[i].name);
        put_param(json, &params->at[i]);
    }
    if (named)
        gsp_json_obj_end(json);
    else
        gsp_json_arr_end(json);
}

static void make_body(struct gsp_sv sql, const struct gsp_params *params,
                      enum gsp_rows_format format, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_sv(&json, "sql", sql);
    /* A table has the names of its columns also when it has no rows. */
    gsp_json_put_str(&json, "format",
                     format == GSP_ROWS_TABLE ? "object" : gsp_rows_format_choice(format));
    if (params && params->count)
        put_params(&json, params);
    gsp_json_obj_end(&json);
}

static void tell_warnings(const struct gsp_remote *remote, const struct gsp_buf *lines)
{
    struct gsp_sv rest = gsp_buf_sv(lines);
    struct gsp_sv line;
    while (gsp_sv_split(&rest, '\n', &line))
        if (line.len)
            gsp_cli_warn(remote->parsed, line);
}

static int put_answer(const struct gsp_rows_dest *dest, const struct gsp_remote *remote,
                      struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    gsp_auto_buf warnings = {0};
    /* What the server wrote has all its types: it goes on as it is. */
    if (dest->format != GSP_ROWS_TABLE)
        return gsp_file_put(dest->path, dest->force, &remote->answer, err);
    int rc = gsp_json_rows_new(gsp_buf_sv(&remote->answer), &warnings, &rows, err);
    if (rc == GSP_OK)
        rc = gsp_cli_put_rows(rows, dest, err);
    gsp_rows_free(rows);
    tell_warnings(remote, &warnings);
    return rc;
}

int gsp_query_remote_open(struct gsp_remote *remote, const struct gsp_parsed *parsed,
                          const char *word, const struct gsp_remote_opts *opts, int64_t timeout_ns)
{
    int status = gsp_remote_open(remote, parsed, word, opts);
    if (status == 0)
        status = gsp_remote_ask(remote, "GET", "/status", (struct gsp_sv){NULL, 0});
    if (timeout_ns)
        remote->timeout_ns = timeout_ns + GRACE_NS;
    return status;
}

int gsp_query_remote_ask(struct gsp_remote *remote, struct gsp_sv sql,
                         const struct gsp_params *params, const struct gsp_rows_dest *dest)
{
    gsp_auto_buf body = {0};
    struct gsp_err err = {0};
    make_body(sql, params, dest->format, &body);
    int status = gsp_remote_ask(remote, "POST", "/query", gsp_buf_sv(&body));
    if (status == 0 && put_answer(dest, remote, &err) < 0)
        status = gsp_cli_fail(remote->parsed, &(struct gsp_hint_context){.path = dest->path}, &err);
    return status;
}

int gsp_query_remote_rows(struct gsp_remote *remote, struct gsp_sv sql, struct gsp_rows **out,
                          struct gsp_err *err)
{
    gsp_auto_buf body = {0};
    *out = NULL;
    make_body(sql, NULL, GSP_ROWS_JSON, &body);
    int rc = gsp_remote_try(remote, "POST", "/query", gsp_buf_sv(&body), err);
    return rc < 0 ? rc : gsp_json_rows_new(gsp_buf_sv(&remote->answer), NULL, out, err);
}

int gsp_query_remote_run(const struct gsp_query_remote *query)
{
    const struct gsp_parsed *parsed = query->parsed;
    struct gsp_remote remote = {0};
    struct gsp_err err = {0};
    if (query->dest.format == GSP_ROWS_PARQUET)
        return gsp_cli_misuse(parsed, "a server writes json, csv or arrow, not parquet");
    if (query->dest.path && gsp_file_check_new(query->dest.path, query->dest.force, &err) < 0)
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){.path = query->dest.path}, &err);
    int status = gsp_remote_open(&remote, parsed, parsed->args[0], &query->remote);
    remote.timeout_ns = query->timeout_ns + GRACE_NS;
    if (status == 0)
        status = gsp_query_remote_ask(&remote, query->sql, &query->params, &query->dest);
    gsp_remote_close(&remote);
    return status;
}
