/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole daemon in this process under concurrent load: ticks, requests of every kind, sessions
 * that start and stop, watched processes that change, settings that are reloaded. Finds data races
 * under TSan.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "daemon/daemon.h"
#include "daemon_fixture.h"
#include "http/client.h"
#include "tap.h"

#define TURNS    60
#define FIXED    3
#define OWNERS   2
#define WATCHERS 2

struct client {
    void (*turn)(const struct client *client, int turn);
    const char *endpoint;
    int number;
    bool is_endless; /* runs until the others are done */
};

static _Atomic int workers_left;

static int ask(const struct client *client, const char *method, const char *path, const char *body)
{
    struct gsp_http_client_answer reply = {0};
    struct gsp_err err = {0};
    const struct gsp_http_client_request call = {.method = method,
                                                 .endpoint = client->endpoint,
                                                 .path = path,
                                                 .body = gsp_sv_of(body ? body : "")};
    int rc = gsp_http_request(&call, &reply, &err);
    const int status = rc < 0 ? rc : reply.status;
    if (rc < 0)
        printf("# %s %s: %s\n", method, path, err.msg);
    gsp_buf_free(&reply.body);
    return status;
}

static void read_all(const struct client *client, int turn GSP_UNUSED)
{
    static const char *const paths[] = {"/",       "/status", "/clients", "/metrics",
                                        "/config", "/health", "/targets", "/profiling/sessions"};
    for (size_t i = 0; i < GSP_COUNT(paths); i++)
        tap_eq_int(ask(client, "GET", paths[i], NULL), 200);
    const int latest = ask(client, "GET", "/metrics/latest", NULL);
    tap_check(latest == 200 || latest == 503); /* 503: before the first metric frame */
}

/* The most frequent requests, from most threads. */
static void read_status(const struct client *client, int turn GSP_UNUSED)
{
    tap_eq_int(ask(client, "GET", "/status", NULL), 200);
}

static void use_session(const struct client *client, int turn)
{
    char name[64];
    char body[160];
    char path[160];
    snprintf(name, sizeof(name), "s%d-%d", client->number, turn);
    snprintf(body, sizeof(body), "{\"name\":\"%s\",\"pids\":[%d],\"labels\":{\"turn\":%d}}", name,
             turn % 2 ? (int)getpid() : (int)getppid(), turn);
    tap_eq_int(ask(client, "POST", "/profiling/start", body), 200);
    snprintf(path, sizeof(path), "/profiling/sessions/%s", name);
    tap_eq_int(ask(client, "GET", path, NULL), 200);
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
    tap_eq_int(ask(client, "POST", "/profiling/stop", body), 200);
    snprintf(path, sizeof(path), "/profiling/sessions/%s/download", name);
    tap_eq_int(ask(client, "GET", path, NULL), 200);
    snprintf(path, sizeof(path), "/profiling/sessions/%s", name);
    const int deleted = ask(client, "DELETE", path, NULL);
    tap_check(deleted == 200 || deleted == 409); /* 409: its file is being written or synced */
}

static void watch(const struct client *client, int turn GSP_UNUSED)
{
    const int pid = client->number % 2 ? (int)getpid() : (int)getppid();
    char path[64];
    snprintf(path, sizeof(path), "/targets/%d/attach", pid);
    tap_eq_int(ask(client, "POST", path, "{}"), 200);
    snprintf(path, sizeof(path), "/targets/%d/detach", pid);
    tap_eq_int(ask(client, "POST", path, "{}"), 200);
}

static void configure(const struct client *client, int turn)
{
    const char *const body = turn % 2 ? "{\"sample_rate\":0.01}" : "{\"sample_rate\":0.02}";
    tap_eq_int(ask(client, "PUT", "/config", body), 200);
}

static void *run_client(void *arg)
{
    const struct client *client = arg;
    for (int turn = 0; client->is_endless ? atomic_load(&workers_left) > 0 : turn < TURNS; turn++)
        client->turn(client, turn);
    if (!client->is_endless)
        atomic_fetch_sub(&workers_left, 1);
    return NULL;
}

/* Opens the stream and never reads from it. */
static int open_stream(uint16_t port)
{
    static const char request[] = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tap_require(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    tap_eq_int(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
    return fd;
}

static void load_settings(const char *folder, struct gsp_settings *out)
{
    struct gsp_err err = {0};
    setenv("XDG_CONFIG_HOME", folder, 1);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    tap_eq_int(gsp_daemon_settings_load(out, NULL, &err), GSP_OK);
    snprintf(out->fixed.state_dir, sizeof(out->fixed.state_dir), "%s/state", folder);
    snprintf(out->fixed.output_dir, sizeof(out->fixed.output_dir), "%s/out", folder);
    out->fixed.port = 0;
    out->live.period_ns = 10 * GSP_NS_PER_MS;
}

/* Runs all clients to their end, and reloads the settings in the meantime. */
static void run_all(struct gsp_daemon *daemon, const struct gsp_settings *settings,
                    struct client *clients, size_t count)
{
    pthread_t threads[16];
    const struct timespec pause = {.tv_nsec = 5 * GSP_NS_PER_MS};
    tap_require(count <= GSP_COUNT(threads));
    for (size_t i = 0; i < count; i++)
        atomic_fetch_add(&workers_left, clients[i].is_endless ? 0 : 1);
    for (size_t i = 0; i < count; i++)
        tap_require(pthread_create(&threads[i], NULL, run_client, &clients[i]) == 0);
    while (atomic_load(&workers_left)) {
        gsp_daemon_reload(daemon, &settings->live);
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

TAP_TEST(all_at_once)
{
    char folder[64];
    char endpoint[160];
    struct gsp_settings settings;
    struct gsp_daemon *daemon = NULL;
    struct gsp_err err = {0};
    made_folder(folder);
    load_settings(folder, &settings);
    tap_eq_int(gsp_daemon_open(&settings, &daemon, &err), GSP_OK);
    tap_eq_str(err.msg, "");
    tap_require(daemon != NULL);
    tap_eq_int(gsp_daemon_start(daemon, &err), GSP_OK);
    snprintf(endpoint, sizeof(endpoint), "unix:%s/state/port-%u.sock", folder,
             gsp_daemon__port(daemon));
    struct client clients[FIXED + OWNERS + WATCHERS] = {
        {.turn = read_all, .is_endless = true},
        {.turn = read_status, .is_endless = true},
        {.turn = configure},
    };
    for (size_t i = 0; i < GSP_COUNT(clients); i++) {
        clients[i].number = (int)i;
        clients[i].endpoint = endpoint;
        if (!clients[i].turn)
            clients[i].turn = i < FIXED + OWNERS ? use_session : watch;
    }
    /* Loads the libraries before several threads could. */
    tap_eq_int(ask(&clients[0], "GET", "/health", NULL), 200);
    int stream = open_stream(gsp_daemon__port(daemon));
    run_all(daemon, &settings, clients, GSP_COUNT(clients));
    gsp_daemon_close(daemon);
    close(stream);
    made_remove(folder);
}

/* Closing the daemon while requests arrive ends it cleanly. */
TAP_TEST(close_during_requests)
{
    char folder[64];
    struct gsp_settings settings;
    made_folder(folder);
    load_settings(folder, &settings);
    for (int turn = 0; turn < 5; turn++) {
        struct gsp_daemon *daemon = NULL;
        struct gsp_err err = {0};
        int fds[8];
        tap_eq_int(gsp_daemon_open(&settings, &daemon, &err), GSP_OK);
        tap_require(daemon != NULL);
        tap_eq_int(gsp_daemon_start(daemon, &err), GSP_OK);
        for (size_t i = 0; i < GSP_COUNT(fds); i++)
            fds[i] = open_stream(gsp_daemon__port(daemon));
        gsp_daemon_close(daemon);
        for (size_t i = 0; i < GSP_COUNT(fds); i++)
            close(fds[i]);
    }
    made_remove(folder);
}

TAP_MAIN()
