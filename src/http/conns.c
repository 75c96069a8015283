/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "http/server_internal.h"

/* Time limit of a connection without a request, if most connections are in use. */
#define CROWDED_NS      (2 * GSP_NS_PER_S)
#define WATCH_PERIOD_NS GSP_NS_PER_S
/* Bytes of an IPv6 address that name the network of a client. */
#define NETWORK_BYTES   8U
/* Bytes before the IPv4 address in an IPv6 address. */
#define MAPPED_BYTES    12U
#define LOOPBACK_NET    127U

/* A process of this machine can use any address in 127.0.0.0/8, and ::1: they count as one. */
static void set_loopback(uint8_t out[16])
{
    memset(out, 0, 16);
    out[0] = LOOPBACK_NET;
    out[3] = 1;
}

/* Returns false for a Unix socket. */
static bool read_address(const struct sockaddr *from, uint8_t out[16])
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (from->sa_family == AF_INET) {
        memcpy(&four, from, sizeof(four));
        memcpy(out, &four.sin_addr, sizeof(four.sin_addr));
        if (out[0] == LOOPBACK_NET)
            set_loopback(out);
        return true;
    }
    if (from->sa_family != AF_INET6)
        return false;
    memcpy(&six, from, sizeof(six));
    const bool is_four = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
    memcpy(out, &six.sin6_addr, is_four ? sizeof(six.sin6_addr) : NETWORK_BYTES);
    if (IN6_IS_ADDR_LOOPBACK(&six.sin6_addr) || (is_four && out[MAPPED_BYTES] == LOOPBACK_NET))
        set_loopback(out);
    return true;
}

/* Shuts a descriptor down. The server thread then notices the end and closes it. */
static void end_conn(const struct gsp_http__conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
}

/* Makes room for a new surplus connection: ends the oldest ones. A client with a request sends it
 * at once, so that it is not among them. */
static void end_oldest_surplus(struct gsp_http_server *server) GSP_REQUIRES(&server->lock);
static void end_oldest_surplus(struct gsp_http_server *server)
{
    const struct gsp_http__conn *oldest = NULL;
    for (struct gsp_http__conn *conn = server->conns; conn; conn = conn->next)
        if (conn->is_surplus && atomic_load(&conn->since_ns))
            oldest = conn; /* the list starts with the newest */
    if (oldest)
        end_conn(oldest);
}

static unsigned count_address(const struct gsp_http_server *server,
                              const struct gsp_http__conn *like) GSP_REQUIRES(&server->lock);
static unsigned count_address(const struct gsp_http_server *server,
                              const struct gsp_http__conn *like)
{
    unsigned count = 0;
    for (const struct gsp_http__conn *conn = server->conns; conn; conn = conn->next)
        count += !conn->is_local && !conn->is_surplus &&
                 memcmp(conn->address, like->address, sizeof(like->address)) == 0;
    return count;
}

static void add_conn(struct gsp_http_server *server, struct gsp_http__conn *conn)
{
    gsp_lock_take(&server->lock);
    if (!conn->is_local) {
        const unsigned usual = server->conn_count - server->surplus_count;
        conn->is_surplus = usual >= server->options.connections_max ||
                           count_address(server, conn) >= server->options.per_address_max;
        if (conn->is_surplus && server->surplus_count >= server->surplus_max)
            end_oldest_surplus(server);
        server->conn_count++;
        server->surplus_count += conn->is_surplus;
    }
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
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
    server->conn_count -= !conn->is_local;
    server->surplus_count -= conn->is_surplus;
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
        return; /* every request of the connection is refused */
    new->fd = info->connect_fd;
    info = gsp_http__mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    new->is_local = !info || !info->client_addr || !read_address(info->client_addr, new->address);
    atomic_store(&new->since_ns, gsp_now_ns());
    *conn = new;
    add_conn(server, new);
}

/* Returns the number of bytes that the client's kernel has received; false if it is not known. */
static bool acknowledged(const struct gsp_http__conn *conn, uint64_t *out)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (conn->is_local || getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked))
        return false;
    *out = info.tcpi_bytes_acked;
    return true;
}

void gsp_http__rate_begin(struct gsp_http__exchange *call)
{
    struct gsp_http__conn *conn = call->conn;
    gsp_lock_take(&call->server->lock);
    if (acknowledged(conn, &conn->sent_bytes))
        conn->sent_ns = gsp_now_ns();
    gsp_lock_release(&call->server->lock);
}

/* Makes the kernel discard the data that the client has not read when the connection is closed. */
static void discard_unsent(const struct gsp_http__conn *conn)
{
    const struct linger none = {.l_onoff = 1};
    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

void gsp_http__rate_end(struct gsp_http__exchange *call, bool is_complete)
{
    if (!is_complete)
        discard_unsent(call->conn);
    gsp_lock_take(&call->server->lock);
    call->conn->sent_ns = 0;
    gsp_lock_release(&call->server->lock);
}

/* Whether the client read its answer too slowly in the last interval. */
static bool reads_slowly(const struct gsp_http_server *server, struct gsp_http__conn *conn,
                         int64_t now_ns)
{
    const int64_t interval_ns = (int64_t)server->options.timeout_s * GSP_NS_PER_S;
    uint64_t bytes = 0;
    if (!conn->sent_ns || now_ns - conn->sent_ns < interval_ns || !acknowledged(conn, &bytes))
        return false;
    const double seconds = (double)(now_ns - conn->sent_ns) / 1e9;
    const bool slow =
        (double)(bytes - conn->sent_bytes) < seconds * (double)server->options.rate_min;
    conn->sent_bytes = bytes;
    conn->sent_ns = now_ns;
    return slow;
}

/* Whether three quarters of all connections, or of those of this address, are in use. */
static bool is_crowded(const struct gsp_http_server *server, const struct gsp_http__conn *conn)
    GSP_REQUIRES(&server->lock);
static bool is_crowded(const struct gsp_http_server *server, const struct gsp_http__conn *conn)
{
    const struct gsp_http_options *options = &server->options;
    if (conn->is_local)
        return false;
    return conn->is_surplus || server->conn_count > options->connections_max / 4 * 3 ||
           (server->conn_count > options->per_address_max / 4 * 3 &&
            count_address(server, conn) > options->per_address_max / 4 * 3);
}

bool gsp_http__conn_is_crowded(struct gsp_http_server *server, const struct gsp_http__conn *conn)
{
    gsp_lock_take(&server->lock);
    const bool crowded = is_crowded(server, conn);
    gsp_lock_release(&server->lock);
    return crowded;
}

/* Whether a request takes too long. libmicrohttpd's timeout restarts at every byte. */
static bool sends_slowly(const struct gsp_http_server *server, const struct gsp_http__conn *conn,
                         int64_t now_ns) GSP_REQUIRES(&server->lock);
static bool sends_slowly(const struct gsp_http_server *server, const struct gsp_http__conn *conn,
                         int64_t now_ns)
{
    const int64_t since_ns = atomic_load(&conn->since_ns);
    if (!since_ns)
        return false;
    return now_ns - since_ns > (int64_t)server->options.timeout_s * GSP_NS_PER_S ||
           (now_ns - since_ns > CROWDED_NS && is_crowded(server, conn));
}

static void end_slow(struct gsp_http_server *server) GSP_REQUIRES(&server->lock);
static void end_slow(struct gsp_http_server *server)
{
    const int64_t now_ns = gsp_now_ns();
    for (struct gsp_http__conn *conn = server->conns; conn; conn = conn->next) {
        const bool slow_reader = reads_slowly(server, conn, now_ns);
        if (slow_reader)
            discard_unsent(conn);
        if (slow_reader || sends_slowly(server, conn, now_ns))
            end_conn(conn);
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
