/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "http/server_internal.h"

#define BEARER          "Bearer "
/* The page's address may contain the token; a browser then passes it in the query. */
#define TOKEN_QUERY     "token"
/* Time limit of a connection without a request, if more than 3/4 of all connections are open. */
#define CROWDED_NS      (2 * GSP_NS_PER_S)
#define WATCH_PERIOD_NS GSP_NS_PER_S

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

/* Copies the name of "name:port" or "[v6]:port". Returns false if it is malformed or too long. */
static bool host_name(const char *host, char *out, size_t cap)
{
    const char *end = NULL;
    if (host[0] == '[') {
        host++;
        end = strchr(host, ']');
        if (!end)
            return false;
    } else {
        end = strchr(host, ':');
        if (!end)
            end = host + strlen(host);
    }
    const size_t len = (size_t)(end - host);
    if (len >= cap)
        return false;
    memcpy(out, host, len);
    out[len] = '\0';
    return true;
}

/* Whether the name always means this machine: no other DNS server can redefine it. */
static bool is_local_name(const char *host)
{
    char name[64];
    if (!host_name(host, name, sizeof(name)))
        return false;
    return strcasecmp(name, "localhost") == 0 || gsp_http__is_loopback(name);
}

static bool origin_is_ours(const char *origin, const char *host)
{
    static const char scheme[] = "http://";
    return host && strncmp(origin, scheme, sizeof(scheme) - 1) == 0 &&
           strcasecmp(origin + sizeof(scheme) - 1, host) == 0;
}

/* Takes constant time for tokens of equal length. */
static bool same_token(const char *a, const char *b)
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
    if (!expected)
        return true;
    const char *sent = gsp_http__header(&call->request, "Authorization");
    if (sent && strncasecmp(sent, BEARER, sizeof(BEARER) - 1) == 0)
        return same_token(sent + sizeof(BEARER) - 1, expected);
    sent = gsp_http_query(&call->request, TOKEN_QUERY);
    return sent && same_token(sent, expected);
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
    call->refusal = (struct gsp_http__refusal){status, code, message};
}

/* Pages of other sites must not use the server through the user's browser. Origin names the site
 * of the page. Without a token, Host protects against DNS rebinding. */
static void check_browser(struct gsp_http__exchange *call)
{
    const char *host = gsp_http__header(&call->request, "Host");
    const char *origin = gsp_http__header(&call->request, "Origin");
    if (host && !call->server->token && !is_local_name(host))
        refuse(call, 403, "HOST", "the Host header does not name this machine");
    else if (origin && !origin_is_ours(origin, host))
        refuse(call, 403, "ORIGIN", "the request comes from a page of another site");
}

void gsp_http__access_check(struct gsp_http__exchange *call)
{
    const struct gsp_http_options *options = &call->server->options;
    if (call->server->local && call->conn && is_unix(call->conn->fd)) {
        call->request.authorised = is_same_user(call->conn->fd);
        call->request.is_trusted = call->request.authorised;
        if (!call->request.authorised)
            refuse(call, 403, "PERM", "the socket belongs to another user");
        return;
    }
    check_browser(call);
    if (call->refusal.status)
        return;
    call->request.authorised = has_token(call);
    call->request.is_trusted = call->request.authorised && call->server->token;
    if (!call->request.authorised &&
        !(options->is_public && options->is_public(options->ctx, call->request.path)))
        refuse(call, 401, "TOKEN", "the request has no valid token");
}

static void add_conn(struct gsp_http_server *server, struct gsp_http__conn *conn)
{
    gsp_lock_take(&server->lock);
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->conn_count++;
    gsp_lock_release(&server->lock);
}

static void remove_conn(struct gsp_http_server *server, struct gsp_http__conn *conn)
{
    gsp_lock_take(&server->lock);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    server->conn_count--;
    gsp_lock_release(&server->lock);
    free(conn);
}

void gsp_http__on_connection(void *cls, struct MHD_Connection *connection, void **conn,
                             enum MHD_ConnectionNotificationCode what)
{
    struct gsp_http_server *server = cls;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*conn)
            remove_conn(server, *conn);
        *conn = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        gsp_http__mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct gsp_http__conn *new = info ? calloc(1, sizeof(*new)) : NULL;
    if (!new)
        return; /* the connection works, but without the time limit for slow requests */
    new->fd = info->connect_fd;
    atomic_store(&new->since_ns, gsp_now_ns());
    *conn = new;
    add_conn(server, new);
}

/* Ends connections whose request takes too long: libmicrohttpd's timeout restarts at every byte.
 * Only shuts the descriptor down; the server thread then notices the end and closes it. */
static void end_slow(struct gsp_http_server *server) GSP_REQUIRES(&server->lock);
static void end_slow(struct gsp_http_server *server)
{
    const int64_t now_ns = gsp_now_ns();
    int64_t limit_ns = (int64_t)server->options.timeout_s * GSP_NS_PER_S;
    if (server->conn_count > server->options.connections_max / 4 * 3 && limit_ns > CROWDED_NS)
        limit_ns = CROWDED_NS;
    for (struct gsp_http__conn *conn = server->conns; conn; conn = conn->next) {
        const int64_t since_ns = atomic_load(&conn->since_ns);
        if (since_ns && now_ns - since_ns > limit_ns)
            shutdown(conn->fd, SHUT_RDWR);
    }
}

void *gsp_http__watcher_run(void *arg)
{
    struct gsp_http_server *server = arg;
    gsp_lock_take(&server->lock);
    while (!server->stopping)
        if (!gsp_lock_wait_until(&server->lock, &server->changed, gsp_now_ns() + WATCH_PERIOD_NS))
            end_slow(server);
    gsp_lock_release(&server->lock);
    return NULL;
}
