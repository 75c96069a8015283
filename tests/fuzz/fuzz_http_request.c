/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_http_request.c -- the headers, query and body of a hostile request, after libmicrohttpd has
 * parsed its first lines. The input has lines "Name: value" for headers and query, then an empty
 * line and the body. The first byte selects the server's options.
 */
#include <strings.h>

#include "fuzz_file.h"
#include "http/server_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS_MAX 32U

struct field {
    const char *name;
    const char *value;
};

static struct field fields[FIELDS_MAX];
static size_t field_count;
static unsigned queued;

static const char *lookup(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                          const char *name)
{
    (void)connection;
    (void)kind;
    for (size_t i = 0; i < field_count; i++)
        if (name && strcasecmp(fields[i].name, name) == 0)
            return fields[i].value;
    return NULL;
}

static int each_header(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                       MHD_KeyValueIterator fn, void *ctx)
{
    (void)connection;
    size_t i = 0;
    while (i < field_count && fn(ctx, kind, fields[i].name, fields[i].value) == MHD_YES)
        i++;
    return (int)i;
}

static const char *version(void)
{
    return "1.0.1";
}

static const union MHD_ConnectionInfo *find_info(struct MHD_Connection *connection,
                                                 enum MHD_ConnectionInfoType type, ...)
{
    static struct gsp_http__conn conn;
    static union MHD_ConnectionInfo info;
    (void)connection;
    conn = (struct gsp_http__conn){.fd = -1};
    info.socket_context = &conn;
    return type == MHD_CONNECTION_INFO_SOCKET_CONTEXT ? &info : NULL;
}

static struct MHD_Response *make(size_t len, void *bytes, enum MHD_ResponseMemoryMode mode)
{
    static char response;
    if (mode == MHD_RESPMEM_MUST_FREE)
        free(bytes);
    (void)len;
    return (struct MHD_Response *)(void *)&response;
}

static enum MHD_Result add_header(struct MHD_Response *response, const char *name,
                                  const char *value)
{
    (void)response;
    return strpbrk(name, "\r\n") || strpbrk(value, "\r\n") ? MHD_NO : MHD_YES;
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
                             struct MHD_Response *response)
{
    (void)connection;
    (void)response;
    if (status < 200 || status > 599)
        abort();
    queued++;
    return MHD_YES;
}

static void destroy(struct MHD_Response *response)
{
    (void)response;
}

static void handle(void *ctx, const struct gsp_http_request *request,
                   struct gsp_http_answer *answer)
{
    const struct gsp_http_server *server = ctx;
    (void)answer;
    if (server->token && request->trust == GSP_HTTP_ANONYMOUS)
        abort(); /* no handler sees a request without the token */
    (void)gsp_http_query(request, "sql");
}

/* Splits the input at its line ends. Returns the body. */
static char *split(char *text)
{
    field_count = 0;
    while (*text && *text != '\n' && field_count < FIELDS_MAX) {
        char *end = strchr(text, '\n');
        char *colon = strchr(text, ':');
        if (!end)
            return text + strlen(text);
        *end = '\0';
        if (colon && colon < end) {
            *colon = '\0';
            const char *value = colon[1] == ' ' ? colon + 2 : colon + 1;
            fields[field_count++] = (struct field){text, value};
        }
        text = end + 1;
    }
    return *text == '\n' ? text + 1 : text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gsp_http_server server;
    static char token[] = "secret";
    if (size < 2)
        return 0;
    gsp_http__mhd = (struct gsp_mhd){.lookup_connection_value = lookup,
                                     .get_connection_info = find_info,
                                     .get_connection_values = each_header,
                                     .get_version = version,
                                     .create_response_from_buffer = make,
                                     .add_response_header = add_header,
                                     .queue_response = queue,
                                     .destroy_response = destroy};
    server = (struct gsp_http_server){.token = data[0] & 1 ? token : NULL};
    server.options = (struct gsp_http_options){.body_max = 64, .handle = handle, .ctx = &server};
    char *text = fuzz_text(data + 1, size - 1);
    char *body = split(text);
    void *state = NULL;
    size_t none = 0;
    size_t len = strlen(body);
    queued = 0;
    enum MHD_Result rc =
        gsp_http__on_request(&server, NULL, "/query", "POST", "HTTP/1.1", NULL, &none, &state);
    for (size_t at = 0; rc == MHD_YES && !queued && at < len;) {
        size_t part = len - at < 48 ? len - at : 48;
        size_t taken = part;
        rc = gsp_http__on_request(&server, NULL, "/query", "POST", "HTTP/1.1", body + at, &taken,
                                  &state);
        at += part;
    }
    if (rc == MHD_YES && !queued)
        gsp_ignore(gsp_http__on_request(&server, NULL, "/query", "POST", "HTTP/1.1", NULL, &none,
                                        &state) == MHD_YES);
    gsp_http__on_completed(&server, NULL, &state, MHD_REQUEST_TERMINATED_COMPLETED_OK);
    free(text);
    return 0;
}
