/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "http/server_internal.h"

#define BEARER     "Bearer "
#define HOST_MAX   256U
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

bool gsp_http__is_loopback(const char *address)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, address, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return false;
}

static bool is_port(const char *text)
{
    int64_t port = 0;
    return text[strspn(text, "0123456789")] == '\0' &&
           gsp_parse_i64(text, 0, UINT16_MAX, &port, NULL) == GSP_OK;
}

/* Copies the name of "name", "name:port", "[v6]" or "[v6]:port". Returns false if the text has
 * another form. */
static bool host_name(const char *host, char out[HOST_MAX])
{
    struct in6_addr six;
    const bool in_brackets = host[0] == '[';
    host += in_brackets;
    const size_t len = in_brackets ? strcspn(host, "]") : strspn(host, NAME_CHARS);
    if (!len || len >= HOST_MAX)
        return false;
    memcpy(out, host, len);
    out[len] = '\0';
    if (in_brackets && (host[len] != ']' || inet_pton(AF_INET6, out, &six) != 1))
        return false;
    const char *rest = host + len + in_brackets;
    return !*rest || (*rest == ':' && is_port(rest + 1));
}

/* Whether the name always means this machine: no other DNS server can redefine it. */
static bool is_local_name(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || gsp_http__is_loopback(name);
}

static bool origin_is_ours(const char *origin, const char *host)
{
    static const char scheme[] = "http://";
    return host && strncmp(origin, scheme, sizeof(scheme) - 1) == 0 &&
           strcasecmp(origin + sizeof(scheme) - 1, host) == 0;
}

bool gsp_http__same_secret(const char *a, const char *b)
{
    const size_t len = strlen(a);
    if (strlen(b) != len)
        return false;
    unsigned char differs = 0;
    for (size_t i = 0; i < len; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return differs == 0;
}

static bool has_token(const struct gsp_http__exchange *call)
{
    const char *expected = call->server->token;
    const char *sent = gsp_http__header(&call->request, "Authorization");
    return expected && sent && strncasecmp(sent, BEARER, sizeof(BEARER) - 1) == 0 &&
           gsp_http__same_secret(sent + sizeof(BEARER) - 1, expected);
}

/* Whether a browser says that our page or the user sends the request. Other programs say nothing.
 * "same-site" would include the pages of other servers on this machine. */
static bool is_from_our_page(const struct gsp_http__exchange *call)
{
    const char *site = gsp_http__header(&call->request, "Sec-Fetch-Site");
    return !site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

static bool is_unix(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    return getsockname(fd, (struct sockaddr *)&address, &len) == 0 && address.ss_family == AF_UNIX;
}

static bool is_same_user(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t len = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void refuse(struct gsp_http__exchange *call, int status, const char *code,
                   const char *message)
{
    call->refusal = (struct gsp_http_refusal){status, code, message, NULL};
}

/* Pages of other sites must not use the server through the user's browser. Origin and
 * Sec-Fetch-Site tell about the page. Without a token, Host protects against DNS rebinding. */
static void check_browser(struct gsp_http__exchange *call)
{
    const char *host = gsp_http__header(&call->request, "Host");
    const char *origin = gsp_http__header(&call->request, "Origin");
    char name[HOST_MAX];
    if (host && !host_name(host, name))
        refuse(call, 400, "HOST", "the Host header is malformed");
    else if (host && !call->server->token && !is_local_name(name))
        refuse(call, 403, "HOST", "the Host header does not name this machine");
    else if ((origin && !origin_is_ours(origin, host)) ||
             (strcmp(call->request.method, "GET") != 0 && !is_from_our_page(call)))
        refuse(call, 403, "ORIGIN", "the request comes from a page of another site");
}

/* A cookie counts only if our own page, or the user, sends it. */
static enum gsp_http_trust find_trust(struct gsp_http__exchange *call)
{
    if (has_token(call) || (is_from_our_page(call) && gsp_http__has_login(call)))
        return GSP_HTTP_TOKEN;
    return GSP_HTTP_ANONYMOUS;
}

void gsp_http__access_check(struct gsp_http__exchange *call)
{
    const struct gsp_http_options *options = &call->server->options;
    if (call->server->local && call->conn && is_unix(call->conn->fd)) {
        if (is_same_user(call->conn->fd))
            call->request.trust = GSP_HTTP_OWNER;
        else
            refuse(call, 403, "PERM", "the socket belongs to another user");
    } else {
        check_browser(call);
        call->request.trust = find_trust(call);
    }
    if (call->refusal.status)
        return;
    if (options->admit)
        options->admit(options->ctx, &call->request, &call->refusal);
    else if (call->server->token && call->request.trust == GSP_HTTP_ANONYMOUS)
        refuse(call, 401, "TOKEN", "the request has no valid token");
}
