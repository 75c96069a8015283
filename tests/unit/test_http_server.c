/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/file.h"
#include "http/client.h"
#include "http/server.h"
#include "tap.h"

/* State of the test handler. */
static _Atomic int closed_streams;
static _Atomic int events;

static int read_event(void *ctx, struct gsp_buf *out)
{
    int *seen = ctx;
    if (*seen == atomic_load(&events))
        return 0;
    gsp_buf_printf(out, "data: %d\n\n", ++*seen);
    return *seen == 3 ? -1 : 1;
}

static void close_events(void *ctx)
{
    free(ctx);
    atomic_fetch_add(&closed_streams, 1);
}

static void handle(void *ctx GSP_UNUSED, const struct gsp_http_request *request,
                   struct gsp_http_answer *answer)
{
    if (strcmp(request->path, "/events") == 0) {
        answer->content_type = "text/event-stream";
        answer->stream = (struct gsp_http_stream){read_event, close_events, calloc(1, sizeof(int))};
        return;
    }
    if (strcmp(request->path, "/no") == 0) {
        gsp_http_answer_error(answer, 404, "NOFILE", "nothing here", NULL);
        return;
    }
    const char *word = gsp_http_query(request, "word");
    gsp_buf_printf(&answer->body, "%s %s %zu %s %d", request->method, request->path,
                   request->body.len, word ? word : "-", (int)request->trust);
}

static bool is_slow(void *ctx GSP_UNUSED, const char *method GSP_UNUSED, const char *path)
{
    return strncmp(path, "/slow", 5) == 0;
}

static void admit(void *ctx GSP_UNUSED, const struct gsp_http_request *request,
                  struct gsp_http_refusal *why)
{
    if (request->trust == GSP_HTTP_ANONYMOUS && strcmp(request->path, "/health") != 0)
        *why = (struct gsp_http_refusal){401, "TOKEN", "no token", "send it"};
}

static struct gsp_http_options options(const char *token)
{
    return (struct gsp_http_options){.bind = "127.0.0.1",
                                     .token = token,
                                     .body_max = 1000,
                                     .timeout_s = 1,
                                     .handle = handle,
                                     .is_slow = is_slow,
                                     .admit = token ? admit : NULL};
}

static int open_and_start(const struct gsp_http_options *with, struct gsp_http_server **out,
                          struct gsp_err *err)
{
    int rc = gsp_http_open(with, out, err);
    if (rc == GSP_OK)
        rc = gsp_http_start(*out, err);
    if (rc < 0) {
        gsp_http_stop(*out);
        *out = NULL;
    }
    return rc;
}

static struct gsp_http_server *serve(const char *token, char endpoint[32])
{
    struct gsp_http_options with = options(token);
    struct gsp_http_server *server = NULL;
    struct gsp_err err = {0};
    tap_eq_int(open_and_start(&with, &server, &err), GSP_OK);
    if (!server)
        exit(TAP_EXIT_FAILED);
    snprintf(endpoint, 32, "127.0.0.1:%u", gsp_http_port(server));
    return server;
}

/* Returns the status of the answer. Appends its body to text unless that is NULL. */
static int send_request(const struct gsp_http_client_request *call, struct gsp_buf *text)
{
    struct gsp_http_client_answer reply = {0};
    struct gsp_err err = {0};
    int rc = gsp_http_request(call, &reply, &err);
    int status = rc < 0 ? rc : reply.status;
    if (text)
        gsp_buf_put(text, reply.body.p, reply.body.len);
    gsp_buf_free(&reply.body);
    return status;
}

static void check_text(const struct gsp_http_client_request *call, int status, const char *text)
{
    gsp_auto_buf got = {0};
    tap_eq_int(send_request(call, &got), status);
    tap_eq_str(gsp_buf_cstr(&got), text);
}

TAP_TEST(requests_and_answers)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    check_text(&(struct gsp_http_client_request){.method = "GET",
                                                 .endpoint = to,
                                                 .path = "/a%20b?word=x%26y"},
               200, "GET /a b 0 x&y 0");
    check_text(
        &(struct gsp_http_client_request){
            .method = "POST", .endpoint = to, .path = "/p", .body = gsp_sv_of("12345")},
        200, "POST /p 5 - 0");
    check_text(
        &(struct gsp_http_client_request){
            .method = "PUT", .endpoint = to, .path = "/slow", .body = gsp_sv_of("1")},
        200, "PUT /slow 1 - 0");
    check_text(&(struct gsp_http_client_request){.method = "GET", .endpoint = to, .path = "/no"},
               404,
               "{\"error\":{\"code\":\"NOFILE\",\"message\":\"nothing here\",\"hint\":null}}\n");
    /* A NUL does not end the path. */
    check_text(&(struct gsp_http_client_request){.method = "GET", .endpoint = to, .path = "/a%00b"},
               200, "GET /a\001b 0 - 0");
    gsp_http_stop(server);
}

TAP_TEST(long_bodies_are_rejected)
{
    char to[32];
    char body[5000];
    memset(body, 'x', sizeof(body));
    struct gsp_http_server *server = serve(NULL, to);
    struct gsp_http_client_request call = {
        .method = "POST", .endpoint = to, .path = "/p", .body = {body, 1000}};
    tap_eq_int(send_request(&call, NULL), 200);
    call.body.len = 1001;
    tap_eq_int(send_request(&call, NULL), 413);
    call.body.len = 5000;
    tap_eq_int(send_request(&call, NULL), 413);
    gsp_http_stop(server);
}

TAP_TEST(a_token_is_required)
{
    char to[32];
    struct gsp_http_server *server = serve("secret", to);
    struct gsp_http_client_request call = {.method = "GET", .endpoint = to, .path = "/x"};
    tap_eq_int(send_request(&call, NULL), 401);
    call.token = "secreT";
    tap_eq_int(send_request(&call, NULL), 401);
    call.token = "secret";
    check_text(&call, 200, "GET /x 0 - 1");
    call.token = NULL;
    call.path = "/x?token=secret";
    tap_eq_int(send_request(&call, NULL), 401);
    call.path = "/health";
    check_text(&call, 200, "GET /health 0 - 0");
    gsp_http_stop(server);
}

TAP_TEST(other_addresses_require_a_token)
{
    struct gsp_http_options with = options(NULL);
    struct gsp_http_server *server = NULL;
    with.bind = "0.0.0.0";
    tap_eq_int(open_and_start(&with, &server, NULL), GSP_E_USAGE);
    with.bind = "nowhere";
    tap_eq_int(open_and_start(&with, &server, NULL), GSP_E_USAGE);
    with.bind = "0.0.0.0";
    with.token = "t";
    tap_eq_int(open_and_start(&with, &server, NULL), GSP_OK);
    gsp_http_stop(server);
}

TAP_TEST(a_port_in_use_is_reported)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    struct gsp_http_server *other = NULL;
    struct gsp_http_options with = options(NULL);
    with.port = gsp_http_port(server);
    tap_eq_int(open_and_start(&with, &other, NULL), GSP_E_EXISTS);
    gsp_http_stop(server);
}

static int dial(struct gsp_http_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(gsp_http_port(server))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tap_eq_int(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Sends raw bytes. Returns the status of the answer, -1 if there is none. */
static int raw(struct gsp_http_server *server, const char *text)
{
    gsp_auto_fd fd = dial(server);
    char answer[512] = {0};
    tap_eq_int(gsp_fd_write_all(fd, text, strlen(text), NULL), GSP_OK);
    ssize_t n = recv(fd, answer, sizeof(answer) - 1, 0);
    return n > 12 ? (int)strtol(answer + 9, NULL, 10) : -1;
}

TAP_TEST(pages_of_other_sites_are_rejected)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    tap_eq_int(raw(server, "GET /x HTTP/1.1\r\nHost: localhost:1\r\n\r\n"), 200);
    tap_eq_int(raw(server, "GET /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), 200);
    tap_eq_int(raw(server, "GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
    tap_eq_int(raw(server, "GET /x HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n"), 403);
    tap_eq_int(raw(server, "POST /x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
                           "Content-Length: 0\r\n\r\n"),
               403);
    tap_eq_int(
        raw(server, "GET /x HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\n\r\n"),
        200);
    tap_eq_int(raw(server, "GET /x HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n"), 403);
    gsp_http_stop(server);
}

TAP_TEST(host_has_one_of_four_forms)
{
    static const struct {
        const char *host;
        int status;
    } CASES[] = {{"localhost", 200},
                 {"LocalHost:0", 200},
                 {"127.1.2.3:65535", 200},
                 {"[::1]", 200},
                 {"[::1]:80", 200},
                 {"[::2]:80", 403},
                 {"localhost.", 403},
                 {"example.org", 403},
                 {"localhost:evil.com", 400},
                 {"localhost:80@evil.com", 400},
                 {"localhost:80:80", 400},
                 {"localhost:", 400},
                 {"localhost:+80", 400},
                 {"localhost:65536", 400},
                 {"localhost/x", 400},
                 {"localhost,evil.com", 400},
                 {"me@localhost", 400},
                 {"::1", 400},
                 {"[::1", 400},
                 {"[]", 400},
                 {"[localhost]", 400},
                 {"[::1].evil.com", 400},
                 {"[::1]80", 400}};
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        char text[128];
        snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: %s\r\n\r\n", CASES[i].host);
        tap_eq_int(raw(server, text), CASES[i].status);
    }
    gsp_http_stop(server);
}

TAP_TEST(a_code_buys_one_cookie)
{
    char to[32];
    char code[GSP_HTTP_CODE_BYTES];
    char cookie[GSP_HTTP_COOKIE_BYTES];
    char text[512];
    struct gsp_http_server *server = serve("secret", to);
    tap_eq_int(gsp_http_login(server, gsp_sv_of(""), cookie, NULL), GSP_E_PERM);
    tap_eq_int(gsp_http_login_code(server, code, NULL), GSP_OK);
    tap_eq_int(strlen(code), GSP_HTTP_CODE_BYTES - 1);
    tap_eq_int(gsp_http_login(server, gsp_sv_of("0000-0000-0000-0000"), cookie, NULL), GSP_E_PERM);
    tap_eq_int(gsp_http_login(server, gsp_sv_of(code), cookie, NULL), GSP_OK);
    tap_check(strstr(cookie, "; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200") != NULL);
    tap_eq_int(gsp_http_login(server, gsp_sv_of(code), text, NULL), GSP_E_PERM);
    cookie[strcspn(cookie, ";")] = '\0';
    snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: a\r\nCookie: b=c; %s\r\n\r\n", cookie);
    tap_eq_int(raw(server, text), 200);
    snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: a\r\nCookie: %.*s\r\n\r\n",
             (int)strlen(cookie) - 1, cookie);
    tap_eq_int(raw(server, text), 401);
    /* Of a page of another server on this machine. */
    snprintf(text, sizeof(text),
             "GET /x HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-site\r\nCookie: %s\r\n\r\n",
             cookie);
    tap_eq_int(raw(server, text), 401);
    snprintf(text, sizeof(text),
             "POST /x HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-site\r\nCookie: %s\r\n"
             "Content-Length: 0\r\n\r\n",
             cookie);
    tap_eq_int(raw(server, text), 403);
    /* The oldest of too many logins ends. */
    for (int i = 0; i < 16; i++) {
        char other[GSP_HTTP_COOKIE_BYTES];
        tap_eq_int(gsp_http_login_code(server, code, NULL), GSP_OK);
        tap_eq_int(gsp_http_login(server, gsp_sv_of(code), other, NULL), GSP_OK);
    }
    snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: a\r\nCookie: %s\r\n\r\n", cookie);
    tap_eq_int(raw(server, text), 401);
    gsp_http_stop(server);
}

/* A byte now and then does not keep a connection open. */
TAP_TEST(slow_headers_end_the_connection)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    gsp_auto_fd fd = dial(server);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    bool ended = false;
    gsp_ignore(gsp_fd_write_all(fd, "GET /x HTTP/1.1\r\nX: ", 20, NULL));
    for (int i = 0; i < 150 && !ended; i++) {
        send(fd, "y", 1, MSG_NOSIGNAL);
        ended = poll(&wait, 1, 100) > 0;
    }
    tap_check(ended);
    gsp_http_stop(server);
}

static void *listen_to_events(void *arg)
{
    gsp_auto_buf got = {0};
    const struct gsp_http_client_request call = {
        .method = "GET", .endpoint = arg, .path = "/events"};
    tap_eq_int(send_request(&call, &got), 200);
    tap_eq_str(gsp_buf_cstr(&got), "data: 1\n\ndata: 2\n\ndata: 3\n\n");
    return NULL;
}

TAP_TEST(streams_are_suspended_and_woken)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    pthread_t thread;
    tap_eq_int(pthread_create(&thread, NULL, listen_to_events, to), 0);
    for (int i = 1; i <= 3; i++) {
        poll(NULL, 0, 20);
        atomic_store(&events, i);
        gsp_http_wake(server);
    }
    pthread_join(thread, NULL);
    gsp_http_stop(server);
    tap_eq_int(atomic_load(&closed_streams), 1);
}

TAP_TEST(stop_ends_suspended_streams)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    gsp_auto_fd fd = dial(server);
    char head[256];
    const char request[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    gsp_ignore(gsp_fd_write_all(fd, request, sizeof(request) - 1, NULL));
    atomic_store(&events, 1);
    gsp_http_wake(server);
    tap_check(recv(fd, head, sizeof(head), 0) > 0);
    gsp_http_stop(server);
    tap_eq_int(atomic_load(&closed_streams), 1);
}

TAP_TEST(the_unix_socket_is_private)
{
    char folder[] = "/tmp/gsprof-http-XXXXXX";
    char path[64];
    char endpoint[80];
    struct stat facts = {0};
    tap_check(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(endpoint, sizeof(endpoint), "unix:%s", path);
    struct gsp_http_options with = options("secret");
    struct gsp_http_server *server = NULL;
    with.bind = NULL;
    with.unix_path = path;
    tap_eq_int(open_and_start(&with, &server, NULL), GSP_OK);
    tap_eq_int(stat(path, &facts), 0);
    tap_eq_int(facts.st_mode & 0777, 0600);
    check_text(
        &(struct gsp_http_client_request){.method = "GET", .endpoint = endpoint, .path = "/x"}, 200,
        "GET /x 0 - 2");
    gsp_http_stop(server);
    tap_check(stat(path, &facts) < 0);
    rmdir(folder);
}

TAP_TEST(the_client_reports_errors)
{
    char to[32];
    struct gsp_http_server *server = serve(NULL, to);
    tap_eq_int(send_request(
                   &(struct gsp_http_client_request){
                       .method = "GET", .endpoint = to, .path = "/a-long-path", .answer_max = 5},
                   NULL),
               GSP_E_LIMIT);
    gsp_http_stop(server);
    tap_eq_int(
        send_request(
            &(struct gsp_http_client_request){.method = "GET", .endpoint = to, .path = "/"}, NULL),
        GSP_E_NOPROC);
    tap_eq_int(
        send_request(
            &(struct gsp_http_client_request){.method = "GET", .endpoint = "a b", .path = "/"},
            NULL),
        GSP_E_USAGE);
    tap_eq_int(
        send_request(
            &(struct gsp_http_client_request){.method = "GET", .endpoint = "u@h:1", .path = "/"},
            NULL),
        GSP_E_USAGE);
    tap_eq_int(send_request(&(struct gsp_http_client_request){.method = "GET",
                                                              .endpoint = "unix:/no/such",
                                                              .path = "/"},
                            NULL),
               GSP_E_NOPROC);
}

TAP_MAIN()
