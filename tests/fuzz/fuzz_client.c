/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a hostile server: refusals, tables of status, settings and sessions, rows. The first
 * byte selects the status. Links with --wrap=gsp_http_request. */
#include <sys/socket.h>

#include "client/client.h"
#include "client/json_rows.h"
#include "client/listener.h"
#include "client/tables.h"
#include "fuzz_file.h"
#include "http/body.h"
#include "http/client.h"
#include "model/row_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_gsp_http_request(const struct gsp_http_client_request *call,
                            struct gsp_http_client_answer *out, struct gsp_err *err);

static int status;

int __wrap_gsp_http_request(const struct gsp_http_client_request *call,
                            struct gsp_http_client_answer *out, struct gsp_err *err)
{
    (void)call;
    (void)err;
    *out = (struct gsp_http_client_answer){.status = status};
    gsp_buf_put(&out->body, fuzz_file_bytes, fuzz_file_len);
    return GSP_OK;
}

static void free_table(struct gsp_row_list *table)
{
    if (table)
        gsp_rows_free(gsp_model_row_list_rows(table));
}

static void read_tables(struct gsp_sv text)
{
    struct gsp_body *body = NULL;
    struct gsp_row_list *members = NULL;
    struct gsp_row_list *settings = NULL;
    struct gsp_row_list *sessions = NULL;
    struct gsp_rows *rows = NULL;
    gsp_auto_buf warnings = {0};
    if (gsp_http_body_read(text, &body, NULL) == GSP_OK) {
        if (gsp_client_members_table(body, NULL, NULL, &members, NULL) > 0)
            free_table(members);
        if (gsp_client_settings_table(body, "settings", NULL, &settings, NULL) > 0)
            free_table(settings);
        if (gsp_client_sessions_table(body, "sessions", &sessions, NULL) > 0)
            free_table(sessions);
    }
    gsp_http_body_free(body);
    if (gsp_client_rows_from_json(text, &warnings, &rows, NULL) == GSP_OK)
        gsp_rows_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int STATUSES[] = {200, 400, 401, 403, 404, 409, 413, 422, 429, 500, 501, 504, 0};
    if (size < 1)
        return 0;
    status = STATUSES[data[0] % GSP_COUNT(STATUSES)];
    fuzz_file_set(data + 1, size - 1);
    const struct gsp_client_call call = {.endpoint = "localhost:1", .method = "GET", .path = "/"};
    struct gsp_client_refusal refusal;
    struct gsp_err err = {0};
    gsp_auto_buf out = {0};
    int rc = gsp_client_request(&call, &out, &refusal, &err);
    if (rc != GSP_OK && err.msg[0] == '\0')
        abort();
    if (rc == GSP_OK)
        read_tables(gsp_buf_sv(&out));
    /* What a user types or a file contains. */
    char *text = fuzz_text(data + 1, size - 1);
    gsp_auto_buf endpoint = {0};
    gsp_auto_buf token = {0};
    const struct gsp_client_tokens tokens = {.config = "token"};
    if (gsp_client_endpoint(text, &endpoint, NULL) == GSP_OK &&
        gsp_client_token(&tokens, gsp_buf_cstr(&endpoint), &token, NULL) == GSP_OK && token.len &&
        memchr(token.p, '\n', token.len))
        abort();
    /* A table of the kernel. */
    enum gsp_listener found = GSP_LISTENER_NONE;
    uid_t uid = 0;
    gsp_client__listener_parse((struct gsp_sv){(const char *)data + 1, size - 1}, 8091, AF_UNSPEC,
                               &found, &uid);
    free(text);
    return 0;
}
