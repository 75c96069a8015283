/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/server_internal.h"

/* A proxy in front of this server must see the same requests as this server. Therefore everything
 * that two programs could read differently is refused.
 *
 * libmicrohttpd 0.9 accepts bare line feeds, folded lines and NULs, and hides them. But it parses
 * the head in place: it overwrites a carriage return, a line feed and a colon with NUL each, and
 * all texts that it returns are in one buffer. So the positions of these texts show what was
 * between them. Version 1.0 refuses such heads itself. */

/* The first version whose MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE is the length of the head. */
#define SIZE_SINCE 74L

struct head {
    const char *next; /* where the next line must start; NULL: the positions are unknown */
    const char *wrong;
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* Whether text is a token of RFC 9110, as names of headers are. */
static bool is_token(const char *text)
{
    const char *p = text;
    while (is_letter(*p) || is_digit(*p) || is_one_of(*p, "!#$%&'*+-.^_`|~"))
        p++;
    return p > text && *p == '\0';
}

static bool has_control(const char *text)
{
    for (const char *p = text; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            return true;
    return false;
}

/* Whether text is "name", "address" or "[address]", each with an optional ":port". */
static bool is_host(const char *text)
{
    const char *p = text;
    if (*p == '[') {
        for (p++; is_letter(*p) || is_digit(*p) || is_one_of(*p, ":.%-_~");)
            p++;
        if (*p != ']' || p == text + 1)
            return false;
        p++;
    } else {
        while (is_letter(*p) || is_digit(*p) || is_one_of(*p, "-._~%!$&'()*+,;="))
            p++;
    }
    if (p == text)
        return false;
    if (*p == ':')
        for (p++; is_digit(*p);)
            p++;
    return *p == '\0';
}

static bool is_length(const char *text)
{
    const char *p = text;
    while (is_digit(*p))
        p++;
    return p > text && p - text < 20 && *p == '\0';
}

static void check_known(struct head *head, const char *name, const char *value)
{
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        head->hosts++;
        if (!is_host(value))
            head->wrong = "the Host header is malformed";
    } else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        head->lengths++;
        if (!is_length(value))
            head->wrong = "the Content-Length header is malformed";
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->encodings++;
        if (strcasecmp(value, "chunked") != 0)
            head->wrong = "the transfer encoding is not supported";
    }
}

/* Checks that the line of a header starts where the last one ended, and finds its end. */
static bool is_next_line(struct head *head, const char *name, const char *value)
{
    if (!head->next)
        return true;
    const char *p = name + strlen(name) + 1;
    bool ok = name == head->next && value >= p;
    for (; ok && p < value; p++)
        ok = *p == ' ' || *p == '\t';
    head->next = value + strlen(value) + 2;
    return ok;
}

static enum MHD_Result check_header(void *cls, enum MHD_ValueKind kind GSP_UNUSED, const char *name,
                                    const char *value)
{
    struct head *head = cls;
    if (!value || !is_token(name))
        head->wrong = "the name of a header is malformed";
    else if (has_control(value))
        head->wrong = "a header contains a control character";
    else if (!is_next_line(head, name, value))
        head->wrong = "the line of a header is malformed";
    else
        check_known(head, name, value);
    return head->wrong ? MHD_NO : MHD_YES;
}

/* The minor number of libmicrohttpd 0.9; 0 for other versions. */
static long old_version(void)
{
    static const char prefix[] = "0.9.";
    const char *version = gsp_http__mhd.get_version();
    return strncmp(version, prefix, sizeof(prefix) - 1) == 0
               ? strtol(version + sizeof(prefix) - 1, NULL, 10)
               : 0;
}

/* Whether the head ends two bytes after the last header: with an empty line. */
static bool ends_well(const struct gsp_http__exchange *call, const struct head *head,
                      const char *method)
{
    const union MHD_ConnectionInfo *info = gsp_http__mhd.get_connection_info(
        call->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return !info || head->next + 2 == method + info->header_size;
}

static const char *find_fault(const struct gsp_http__exchange *call, const char *method,
                              const char *version)
{
    const char *uri = call->request.path;
    const long old = old_version();
    struct head head = {0};
    if (!is_token(method) || call->conn->has_bad_uri || strncmp(version, "HTTP/1.", 7) != 0)
        return "the request line is malformed";
    if (old) {
        if (uri != method + strlen(method) + 1 || version != uri + call->conn->uri_len + 1)
            return "the request line is malformed";
        head.next = version + strlen(version) + 2;
    }
    gsp_http__mhd.get_connection_values(call->connection, MHD_HEADER_KIND, check_header, &head);
    const bool is_newer = strcmp(version, "HTTP/1.0") != 0;
    if (head.wrong)
        return head.wrong;
    if (old >= SIZE_SINCE && !ends_well(call, &head, method))
        return "the end of the headers is malformed";
    if (head.hosts > 1 || (is_newer && head.hosts == 0))
        return "the request must have one Host header";
    if (head.lengths + head.encodings > 1)
        return "the length of the body is ambiguous";
    if (head.encodings && !is_newer)
        return "HTTP/1.0 has no transfer encodings";
    return NULL;
}

int gsp_http__head_strictness(void)
{
    /* Version 0.9 checks little more then, but sends the head of such an answer twice. */
    return old_version() ? 0 : 1;
}

void *gsp_http__on_uri(void *cls GSP_UNUSED, const char *uri, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        gsp_http__mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct gsp_http__conn *conn = info ? info->socket_context : NULL;
    if (conn) {
        conn->uri_len = uri ? strlen(uri) : 0;
        conn->has_bad_uri = !uri || has_control(uri) || strpbrk(uri, " \t");
    }
    return NULL; /* the state of the request */
}

void gsp_http__head_check(struct gsp_http__exchange *call, const char *method, const char *version)
{
    const char *fault = find_fault(call, method, version);
    /* The end of a chunked body cannot be checked in the same way. */
    call->must_close = fault || gsp_http__header(&call->request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (fault)
        call->refusal = (struct gsp_http_refusal){MHD_HTTP_BAD_REQUEST, "HTTP", fault, NULL};
}
