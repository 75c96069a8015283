/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "http/server_internal.h"

#define BODY_DEFAULT        (1U << 20)
#define CONNECTIONS_DEFAULT 1024U
#define PER_ADDRESS_DEFAULT 256U
#define STREAMS_DEFAULT     64U
#define ANSWERS_DEFAULT     (UINT64_C(512) << 20)
#define SURPLUS_MAX         32U
#define TIMEOUT_DEFAULT_S   30U
#define BACKLOG             512
/* For the headers of a request and its answer; longer headers give status 431. */
#define CONNECTION_BYTES    16384U

/* Descriptors reserved for files, libraries and other processes. */
#define DESCRIPTORS_KEPT    ((rlim_t)128)
/* A client needs one for the connection and one for a file that is sent. */
#define DESCRIPTORS_EACH    2U

static int socket_failed(int sys, const char *what, struct gsp_err *err)
{
    switch (sys) {
    case EADDRINUSE:
        return gsp_err_set(err, GSP_E_EXISTS, sys, "%s is in use", what);
    case EACCES:
    case EPERM:
        return gsp_err_set(err, GSP_E_PERM, sys, "%s: %s", what, strerror(sys));
    default:
        return gsp_err_set(err, GSP_E_IO, sys, "%s: %s", what, strerror(sys));
    }
}

/* Returns the length of the socket address, or 0 if bind_to is not an IP address. */
static socklen_t make_address(const char *bind_to, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, bind_to, &four.sin_addr) == 1) {
        memcpy(out, &four, sizeof(four));
        return sizeof(four);
    }
    if (inet_pton(AF_INET6, bind_to, &six.sin6_addr) == 1) {
        memcpy(out, &six, sizeof(six));
        return sizeof(six);
    }
    return 0;
}

static int listen_on(int fd, const struct sockaddr *address, socklen_t len)
{
    if (fd < 0 || bind(fd, address, len) < 0 || listen(fd, BACKLOG) < 0)
        return errno ? errno : EIO;
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return 0;
    if (address.ss_family == AF_INET) {
        memcpy(&four, &address, sizeof(four));
        return ntohs(four.sin_port);
    }
    memcpy(&six, &address, sizeof(six));
    return ntohs(six.sin6_port);
}

static int open_tcp(struct gsp_http_server *server, struct gsp_err *err)
{
    struct sockaddr_storage address;
    char what[80];
    const int on = 1;
    socklen_t len = make_address(server->bind, server->options.port, &address);
    if (!len)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s is not an IP address", server->bind);
    if (!server->token && !gsp_http__is_loopback(server->bind)) {
        gsp_err_fill(err, GSP_E_USAGE, 0, "other machines can connect to %s: a token is required",
                     server->bind);
        gsp_err_set_reason(err, GSP_REASON_TOKEN);
        return GSP_E_USAGE;
    }
    snprintf(what, sizeof(what), "port %u of %s", server->options.port, server->bind);
    server->tcp_fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Allow a restart while connections of the previous server are in TIME_WAIT. */
    if (server->tcp_fd >= 0)
        setsockopt(server->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    int sys = listen_on(server->tcp_fd, (const struct sockaddr *)&address, len);
    if (sys)
        return socket_failed(sys, what, err);
    server->port = port_of(server->tcp_fd);
    return server->port ? GSP_OK : socket_failed(errno, what, err);
}

/* Removes the socket file of a killed server: one on which no process listens. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat facts;
    if (lstat(address->sun_path, &facts) < 0 || !S_ISSOCK(facts.st_mode))
        return;
    gsp_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
        errno == ECONNREFUSED)
        unlink(address->sun_path);
}

static int open_unix(struct gsp_http_server *server, struct gsp_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t len = strlen(server->unix_path);
    if (len >= sizeof(address.sun_path))
        return gsp_err_set(err, GSP_E_USAGE, 0, "the path of the socket is too long: %s",
                           server->unix_path);
    memcpy(address.sun_path, server->unix_path, len);
    remove_stale(&address);
    server->local_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* bind() creates the file with the mode of the socket. */
    if (server->local_fd < 0 || fchmod(server->local_fd, 0600) < 0 ||
        bind(server->local_fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return socket_failed(errno, server->unix_path, err);
    server->has_unix_file = true;
    return listen(server->local_fd, BACKLOG) < 0 ? socket_failed(errno, server->unix_path, err)
                                                 : GSP_OK;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char low = (char)tolower((unsigned char)c);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* Decodes %XX in place. %00 becomes \x01: a NUL would end the text, and no valid name contains
 * either. */
static size_t unescape(void *cls GSP_UNUSED, struct MHD_Connection *connection GSP_UNUSED,
                       char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++) {
        int high = p[0] == '%' && p[1] ? digit(p[1]) : -1;
        int low = high >= 0 && p[2] ? digit(p[2]) : -1;
        if (low < 0) {
            *out++ = *p;
            continue;
        }
        int c = high * 16 + low;
        *out++ = (char)(c ? c : 1);
        p += 2;
    }
    *out = '\0';
    return (size_t)(out - text);
}

static struct MHD_Daemon *start(struct gsp_http_server *server, int fd)
{
    const struct gsp_http_options *options = &server->options;
    const struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, options->threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    return gsp_http__mhd.start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
        gsp_http__on_request, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        options->connections_max + 2 * server->surplus_max, MHD_OPTION_CONNECTION_TIMEOUT,
        options->timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, gsp_http__on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        gsp_http__on_connection, server, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, gsp_http__on_uri, NULL, MHD_OPTION_STRICT_FOR_CLIENT,
        gsp_http__head_strictness(), MHD_OPTION_ARRAY, options->threads > 1 ? pool : pool + 1,
        MHD_OPTION_END);
}

static int copy_text(const char *text, char **out, struct gsp_err *err)
{
    if (!text)
        return GSP_OK;
    *out = strdup(text);
    return *out ? GSP_OK : gsp_err_nomem(err);
}

static int init_cond(struct gsp_http_server *server, struct gsp_err *err)
{
    if (gsp_thread_cond_init(&server->changed) != 0)
        return gsp_err_nomem(err);
    server->has_cond = true;
    return GSP_OK;
}

static int open_all(struct gsp_http_server *server, struct gsp_err *err)
{
    int rc = gsp_http__mhd_load(err);
    if (rc == GSP_OK)
        rc = init_cond(server, err);
    if (rc == GSP_OK && server->bind)
        rc = open_tcp(server, err);
    if (rc == GSP_OK && server->unix_path)
        rc = open_unix(server, err);
    return rc;
}

/* Lowers the number of connections to the descriptors that the process may open: further clients
 * wait, but opening files does not fail. */
static unsigned limit_connections(unsigned max)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
        limit.rlim_cur >= (rlim_t)max * DESCRIPTORS_EACH + DESCRIPTORS_KEPT)
        return max;
    const rlim_t kept =
        limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? DESCRIPTORS_KEPT : limit.rlim_cur / 2;
    const unsigned left = (unsigned)((limit.rlim_cur - kept) / DESCRIPTORS_EACH);
    return left ? left : 1;
}

/* Divides the connections: each surplus connection that is accepted may replace one that is still
 * being closed. */
static void divide_connections(struct gsp_http_server *server)
{
    struct gsp_http_options *options = &server->options;
    const unsigned all = limit_connections(options->connections_max + 2 * SURPLUS_MAX);
    server->surplus_max = all / 16 < SURPLUS_MAX ? all / 16 : SURPLUS_MAX;
    if (!server->surplus_max)
        server->surplus_max = 1;
    const unsigned usual = all > 2 * server->surplus_max ? all - 2 * server->surplus_max : 1;
    if (usual < options->connections_max)
        options->connections_max = usual;
}

static void fill_defaults(struct gsp_http_options *options)
{
    if (!options->body_max)
        options->body_max = BODY_DEFAULT;
    if (!options->connections_max)
        options->connections_max = CONNECTIONS_DEFAULT;
    if (!options->per_address_max)
        options->per_address_max = PER_ADDRESS_DEFAULT;
    if (!options->streams_max)
        options->streams_max = STREAMS_DEFAULT;
    if (!options->answers_bytes_max)
        options->answers_bytes_max = ANSWERS_DEFAULT;
    if (!options->timeout_s)
        options->timeout_s = TIMEOUT_DEFAULT_S;
    if (!options->threads)
        options->threads = 1;
}

int gsp_http_open(const struct gsp_http_options *options, struct gsp_http_server **out,
                  struct gsp_err *err)
{
    *out = NULL;
    struct gsp_http_server *server = calloc(1, sizeof(*server));
    if (!server)
        return gsp_err_nomem(err);
    server->tcp_fd = -1;
    server->local_fd = -1;
    server->options = *options;
    fill_defaults(&server->options);
    divide_connections(server);
    int rc = copy_text(options->bind, &server->bind, err);
    if (rc == GSP_OK)
        rc = copy_text(options->token, &server->token, err);
    if (rc == GSP_OK)
        rc = copy_text(options->unix_path, &server->unix_path, err);
    if (rc == GSP_OK)
        rc = open_all(server, err);
    if (rc < 0) {
        gsp_http_stop(server);
        return rc;
    }
    *out = server;
    return GSP_OK;
}

int gsp_http_open_unix(struct gsp_http_server *server, const char *path, struct gsp_err *err)
{
    int rc = copy_text(path, &server->unix_path, err);
    if (rc == GSP_OK)
        rc = open_unix(server, err);
    if (rc < 0) {
        gsp_fd_close(&server->local_fd);
        server->local_fd = -1;
        free(server->unix_path);
        server->unix_path = NULL;
    }
    return rc;
}

int gsp_http_start(struct gsp_http_server *server, struct gsp_err *err)
{
    const int sys = pthread_create(&server->watcher, NULL, gsp_http__watcher_run, server);
    server->has_watcher = sys == 0;
    if (sys)
        return gsp_err_set(err, GSP_E_IO, sys, "cannot start a thread: %s", strerror(sys));
    if (server->tcp_fd >= 0)
        server->tcp = start(server, server->tcp_fd);
    if (server->local_fd >= 0)
        server->local = start(server, server->local_fd);
    if ((server->tcp_fd >= 0 && !server->tcp) || (server->local_fd >= 0 && !server->local))
        return gsp_err_set(err, GSP_E_IO, errno, "cannot start the HTTP server: %s",
                           strerror(errno));
    return GSP_OK;
}

uint16_t gsp_http_port(const struct gsp_http_server *server)
{
    return server->port;
}

static void wake_streams(struct gsp_http_server *server) GSP_REQUIRES(&server->lock);
static void wake_streams(struct gsp_http_server *server)
{
    server->wake_seq++;
    for (struct gsp_http__stream *stream = server->streams; stream; stream = stream->next) {
        if (!stream->suspended)
            continue;
        stream->suspended = false;
        gsp_http__mhd.resume_connection(stream->connection);
    }
}

void gsp_http_wake(struct gsp_http_server *server)
{
    gsp_lock_take(&server->lock);
    wake_streams(server);
    gsp_lock_release(&server->lock);
}

/* Ends the watcher and all streams, and waits for all jobs. */
static void finish_jobs(struct gsp_http_server *server)
{
    gsp_lock_take(&server->lock);
    server->stopping = true;
    wake_streams(server);
    pthread_cond_broadcast(&server->changed);
    while (server->job_count)
        gsp_lock_wait(&server->lock, &server->changed);
    gsp_lock_release(&server->lock);
}

static void stop_daemon(struct MHD_Daemon *daemon, const int *fd)
{
    if (daemon) {
        gsp_http__mhd.quiesce_daemon(daemon); /* keeps the socket, which is closed below */
        gsp_http__mhd.stop_daemon(daemon);
    }
    gsp_fd_close(fd);
}

void gsp_http_stop(struct gsp_http_server *server)
{
    if (!server)
        return;
    if (server->has_cond)
        finish_jobs(server);
    stop_daemon(server->tcp, &server->tcp_fd);
    stop_daemon(server->local, &server->local_fd);
    if (server->has_unix_file)
        unlink(server->unix_path);
    if (server->has_watcher)
        pthread_join(server->watcher, NULL);
    if (server->has_cond)
        pthread_cond_destroy(&server->changed);
    free(server->bind);
    free(server->token);
    free(server->unix_path);
    free(server);
}
