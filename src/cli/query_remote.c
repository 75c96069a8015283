/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/query_remote.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/time.h"
#include "cli/endpoint.h"
#include "cli/hint.h"
#include "cli/json_rows.h"

/* The server ends a query by itself; its word should come before we stop to listen. */
#define GRACE_NS (5 * GSP_NS_PER_S)

bool gsp_query_is_remote(const char *word)
{
    return strncmp(word, "unix:", 5) == 0 || strncmp(word, "http://", 7) == 0 ||
           (gsp_endpoint_is_address(word) && access(word, F_OK) != 0);
}

static void make_body(const struct gsp_query_remote *query, struct gsp_buf *out)
{
    struct gsp_json json;
    enum gsp_rows_format format = query->dest.format;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_sv(&json, "sql", query->sql);
    gsp_json_put_str(&json, "format",
                     gsp_rows_format_choice(format == GSP_ROWS_TABLE ? GSP_ROWS_JSON : format));
    gsp_json_obj_end(&json);
}

static int put_answer(const struct gsp_query_remote *query, const struct gsp_remote *remote,
                      struct gsp_err *err)
{
    struct gsp_rows *rows = NULL;
    /* What the server wrote has all its types: it goes on as it is. */
    if (query->dest.format != GSP_ROWS_TABLE)
        return gsp_cli_put_text(query->dest.path, query->dest.force, &remote->answer, err);
    int rc = gsp_json_rows_new(gsp_buf_sv(&remote->answer), &rows, err);
    if (rc == GSP_OK)
        rc = gsp_cli_put_rows(rows, &query->dest, err);
    gsp_rows_free(rows);
    return rc;
}

int gsp_query_remote_run(const struct gsp_query_remote *query)
{
    const struct gsp_parsed *parsed = query->parsed;
    struct gsp_remote remote = {0};
    struct gsp_err err = {0};
    gsp_auto_buf body = {0};
    if (query->dest.format == GSP_ROWS_PARQUET)
        return gsp_cli_misuse(parsed, "a server writes json, csv or arrow, not parquet");
    if (query->dest.path && gsp_cli_check_output(query->dest.path, query->dest.force, &err) < 0)
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){.path = query->dest.path}, &err);
    int status = gsp_remote_open(&remote, parsed, parsed->args[0], &query->remote);
    remote.timeout_ns = query->timeout_ns + GRACE_NS;
    make_body(query, &body);
    if (status == 0)
        status = gsp_remote_ask(&remote, "POST", "/query", gsp_buf_sv(&body));
    if (status == 0 && put_answer(query, &remote, &err) < 0)
        status = gsp_cli_fail(parsed, &(struct gsp_hint_context){.path = query->dest.path}, &err);
    gsp_remote_close(&remote);
    return status;
}
