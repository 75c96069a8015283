/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "daemon/daemon_internal.h"
#include "daemon/hints.h"
#include "daemon/routes.h"
#include "ring/dir.h"

#define TOKEN_BYTES_MAX 1024U
/* Clients know the name too: client/client.c and python/gsprof/_session.py. */
#define SOCKET_PREFIX   "port-"
#define SOCKET_SUFFIX   ".sock"

/* Fails with "<what><path>: <the system error>". */
static int refuse_folder(struct gsp_err *err, int code, int sys, const char *what, const char *path)
{
    gsp_err_fill(err, code, sys, "%s%.150s%s%s", what, path, sys ? ": " : "",
                 sys ? strerror(sys) : ""); /* NOLINT(concurrency-*) */
    gsp_err_set_reason(err, GSP_REASON_FOLDER);
    return code;
}

/* Creates a folder and its parents. */
static int make_folder(const char *path, mode_t mode, struct gsp_err *err)
{
    char part[GSP_SETTING_CHARS];
    const size_t len = strlen(path);
    if (len >= sizeof(part))
        return refuse_folder(err, GSP_E_USAGE, 0, "the path of a folder is too long", "");
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST) {
            const int sys = errno;
            return refuse_folder(err, sys == ENOTDIR ? GSP_E_NOFILE : GSP_E_NOWRITE, sys,
                                 "cannot create the folder ", part);
        }
    }
    return GSP_OK;
}

static int check_output(const char *path, struct gsp_err *err)
{
    struct stat facts;
    int rc = make_folder(path, 0777, err);
    if (rc < 0)
        return rc;
    if (stat(path, &facts) < 0)
        return refuse_folder(err, GSP_E_NOFILE, errno, "", path);
    if (!S_ISDIR(facts.st_mode))
        return refuse_folder(err, GSP_E_NOFILE, ENOTDIR, "", path);
    if (access(path, W_OK | X_OK) < 0)
        return refuse_folder(err, GSP_E_NOWRITE, errno, "cannot write to the folder ", path);
    return GSP_OK;
}

/* Two daemons with one state folder would write the same frame log. */
static int lock_state(struct gsp_daemon *daemon, struct gsp_err *err)
{
    char path[GSP_SETTING_CHARS + 16];
    int rc = make_folder(daemon->fixed->state_dir, 0700, err);
    if (rc < 0)
        return rc;
    snprintf(path, sizeof(path), "%s/lock", daemon->fixed->state_dir);
    daemon->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (daemon->lock_fd < 0)
        return refuse_folder(err, GSP_E_NOWRITE, errno, "cannot open ", path);
    if (flock(daemon->lock_fd, LOCK_EX | LOCK_NB) == 0) {
        daemon->has_state = true;
        return GSP_OK;
    }
    if (errno != EWOULDBLOCK)
        return refuse_folder(err, GSP_E_IO, errno, "cannot lock ", path);
    return gsp_err_set(err, GSP_E_EXISTS, errno, "another daemon uses the folder %.150s",
                       daemon->fixed->state_dir);
}

static int read_token(struct gsp_daemon *daemon, struct gsp_err *err)
{
    const char *path = daemon->fixed->token_file;
    gsp_auto_buf text = {0};
    if (!path[0])
        return GSP_OK;
    struct gsp_err why = {0};
    int rc = gsp_file_read(path, TOKEN_BYTES_MAX, &text, &why);
    if (rc < 0) {
        gsp_err_fill(err, rc, why.sys, "cannot read the token: %.200s", why.msg);
        gsp_err_set_reason(err, GSP_REASON_TOKEN);
        return rc;
    }
    size_t len = 0;
    while (len < text.len && text.p[len] > ' ' && text.p[len] < 127)
        len++;
    for (size_t i = len; i < text.len; i++)
        if (!strchr(" \t\r\n", text.p[i]) || !text.p[i])
            len = 0;
    if (!len) {
        gsp_err_fill(err, GSP_E_USAGE, 0, "the token file %.150s must contain exactly one word",
                     path);
        gsp_err_set_reason(err, GSP_REASON_TOKEN);
        return GSP_E_USAGE;
    }
    struct stat facts;
    /* Only a warning: mounted secrets often have this mode. */
    if (stat(path, &facts) == 0 && (facts.st_mode & S_IROTH))
        gsp_log_warn("daemon", "all users can read the token file %s; %s", path,
                     gsp_daemon__hint(GSP_HINT_TOKEN_MODE));
    daemon->token = gsp_sv_dup((struct gsp_sv){text.p, len});
    return daemon->token ? GSP_OK : gsp_err_nomem(err);
}

static int open_sources(struct gsp_daemon *daemon, struct gsp_err *err)
{
    const struct gsp_settings_fixed *settings = daemon->fixed;
    const struct gsp_collect_env env = {.proc_root = "/proc",
                                        .sys_root = "/sys",
                                        .nvml_library = "libnvidia-ml.so.1",
                                        .carbon_g_per_kwh = settings->carbon_g_per_kwh,
                                        .cpu_tdp_watts = settings->cpu_tdp_watts,
                                        .pss = settings->pss};
    const struct gsp_ring_dir_spec about = {.pid = getpid(), .rank = GSP_NULL_I64};
    int rc = gsp_collect_open(&env, &daemon->collect, err);
    if (rc < 0)
        return rc;
    /* Without rings everything works except live SQL. */
    struct gsp_err why = {0};
    if (gsp_ring_dir_create(&about, &daemon->ring_dir_fd, &why) < 0) {
        gsp_log_warn("daemon", "no tables in shared memory: %s", why.msg);
        daemon->ring_dir_fd = -1;
    }
    return GSP_OK;
}

static int open_log(struct gsp_daemon *daemon, struct gsp_err *err)
{
    const struct gsp_settings_fixed *settings = daemon->fixed;
    const struct gsp_frame_log_options log = {.folder = settings->state_dir, .host = daemon->host};
    const struct gsp_sessions_options sessions = {.state_folder = settings->state_dir,
                                                  .output_folder = settings->output_dir,
                                                  .host = daemon->host,
                                                  .keep_ns = settings->keep_ns,
                                                  .share_bytes = (uint64_t)settings->anonymous_mb
                                                                 << 20,
                                                  .keep_max = (uint32_t)settings->keep_sessions};
    int rc = gsp_frames_log_open(&log, &daemon->frames, err);
    if (rc < 0)
        return rc;
    gsp_frames_log_set_period(daemon->frames, gsp_daemon__live_settings(daemon).period_ns);
    gsp_daemon__rows_init(&daemon->rows, gsp_frames_log_sink(daemon->frames), daemon->ring_dir_fd,
                          (uint32_t)settings->ring_rows);
    daemon->has_rows = true;
    rc = gsp_daemon__sessions_open(&sessions, daemon->frames, &daemon->sessions, err);
    return rc < 0 ? rc
                  : gsp_daemon__targets_open(settings->output_dir, daemon->sessions,
                                             &daemon->targets, err);
}

static int init_conds(struct gsp_daemon *daemon, struct gsp_err *err)
{
    if (gsp_thread_cond_init(&daemon->changed) != 0 || gsp_thread_cond_init(&daemon->framed) != 0)
        return gsp_err_nomem(err);
    daemon->has_conds = true;
    return GSP_OK;
}

static int open_port(struct gsp_daemon *daemon, struct gsp_err *err)
{
    const struct gsp_settings_fixed *settings = daemon->fixed;
    const bool local = settings->socket_path[0] != '\0';
    const struct gsp_http_options options = {
        .bind = settings->bind,
        .port = (uint16_t)settings->port,
        .unix_path = local ? settings->socket_path : NULL,
        .token = daemon->token,
        .per_address_max = (unsigned)settings->connections_per_address,
        .streams_max = (unsigned)settings->streams,
        .timeout_s = (unsigned)(settings->request_timeout_ns / GSP_NS_PER_S),
        .answers_bytes_max = (uint64_t)settings->answers_mb << 20,
        .rate_min = (uint64_t)settings->answer_rate_kb << 10,
        .handle = gsp_daemon__routes_handle,
        .is_slow = gsp_daemon__routes_is_slow,
        .is_vital = gsp_daemon__routes_is_vital,
        .admit = gsp_daemon__routes_admit,
        .hint = gsp_daemon__hint_for_refusal,
        .ctx = daemon};
    const int rc = gsp_http_open(&options, &daemon->server, err);
    const bool six = strchr(settings->bind, ':') != NULL;
    if (rc == GSP_OK)
        snprintf(daemon->url, sizeof(daemon->url), "http://%s%s%s:%u", six ? "[" : "",
                 settings->bind, six ? "]" : "", gsp_http_port(daemon->server));
    return rc;
}

/* Removes the sockets of daemons that were killed. The lock shows that none of them runs. */
static void remove_sockets(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        const struct gsp_sv name = gsp_sv_of(e->d_name);
        struct stat facts;
        if (gsp_sv_starts(name, SOCKET_PREFIX) && gsp_sv_ends(name, SOCKET_SUFFIX) &&
            fstatat(dirfd(dir), e->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            (S_ISSOCK(facts.st_mode) || S_ISLNK(facts.st_mode)))
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}

/* Commands of the same user look for the socket of a port in the state folder. If the user has
 * chosen another path, there is a link to it. */
static void open_socket(struct gsp_daemon *daemon)
{
    const struct gsp_settings_fixed *settings = daemon->fixed;
    struct gsp_err why = {0};
    char path[GSP_SETTING_CHARS + 32];
    snprintf(path, sizeof(path), "%s/" SOCKET_PREFIX "%u" SOCKET_SUFFIX, settings->state_dir,
             gsp_http_port(daemon->server));
    remove_sockets(settings->state_dir);
    if (settings->socket_path[0]) {
        if (symlink(settings->socket_path, path) < 0)
            gsp_log_warn("daemon", "cannot create %s: %s", path, strerror(errno));
    } else if (gsp_http_open_unix(daemon->server, path, &why) < 0) {
        gsp_log_warn("daemon", "no Unix socket: %s", why.msg);
    }
}

static int open_all(struct gsp_daemon *daemon, struct gsp_err *err)
{
    int rc = init_conds(daemon, err);
    if (rc == GSP_OK)
        rc = read_token(daemon, err);
    /* The port comes before the disk: if it is not available, nothing is written. */
    if (rc == GSP_OK)
        rc = open_port(daemon, err);
    if (rc == GSP_OK)
        rc = check_output(daemon->fixed->output_dir, err);
    if (rc == GSP_OK)
        rc = lock_state(daemon, err);
    if (rc == GSP_OK) {
        open_socket(daemon);
        rc = open_sources(daemon, err);
    }
    if (rc == GSP_OK)
        rc = open_log(daemon, err);
    return rc;
}

int gsp_daemon_open(const struct gsp_settings *settings, struct gsp_daemon **out,
                    struct gsp_err *err)
{
    *out = NULL;
    struct gsp_daemon *daemon = calloc(1, sizeof(*daemon));
    if (!daemon)
        return gsp_err_nomem(err);
    daemon->fixed_storage = settings->fixed;
    daemon->fixed = &daemon->fixed_storage;
    daemon->live = settings->live;
    daemon->lock_fd = -1;
    daemon->ring_dir_fd = -1;
    daemon->start_ns = gsp_realtime_ns();
    daemon->start_mono_ns = gsp_now_ns();
    daemon->settings_changed = true;
    if (gethostname(daemon->host, sizeof(daemon->host) - 1) < 0)
        snprintf(daemon->host, sizeof(daemon->host), "localhost");
    int rc = open_all(daemon, err);
    if (rc < 0) {
        gsp_daemon_close(daemon);
        return rc;
    }
    *out = daemon;
    return GSP_OK;
}

int gsp_daemon_start(struct gsp_daemon *daemon, struct gsp_err *err)
{
    gsp_daemon__targets_resume(daemon->targets);
    gsp_daemon__watched_update(daemon);
    int rc = gsp_http_start(daemon->server, err);
    if (rc < 0)
        return rc;
    int sys = pthread_create(&daemon->collector, NULL, gsp_daemon__collect, daemon);
    daemon->has_collector = sys == 0;
    if (sys == 0) {
        sys = pthread_create(&daemon->maintainer, NULL, gsp_daemon__maintain, daemon);
        daemon->has_maintainer = sys == 0;
    }
    if (sys)
        return gsp_err_set(err, GSP_E_IO, sys, "cannot start a thread: %s", strerror(sys));
    return GSP_OK;
}

static void stop_threads(struct gsp_daemon *daemon)
{
    gsp_lock_take(&daemon->lock);
    daemon->stopping = true;
    pthread_cond_broadcast(&daemon->changed);
    pthread_cond_broadcast(&daemon->framed);
    gsp_lock_release(&daemon->lock);
    if (daemon->has_collector)
        pthread_join(daemon->collector, NULL);
    if (daemon->has_maintainer)
        pthread_join(daemon->maintainer, NULL);
}

void gsp_daemon_close(struct gsp_daemon *daemon)
{
    if (!daemon)
        return;
    if (daemon->has_conds)
        stop_threads(daemon);
    gsp_daemon__targets_stop(daemon->targets);
    gsp_http_stop(daemon->server);
    if (daemon->has_state)
        remove_sockets(daemon->fixed->state_dir);
    gsp_daemon__targets_close(daemon->targets);
    gsp_daemon__sessions_close(daemon->sessions);
    if (daemon->has_rows)
        gsp_daemon__rows_free(&daemon->rows);
    gsp_frames_log_close(daemon->frames);
    gsp_collect_close(daemon->collect);
    gsp_fd_close(&daemon->ring_dir_fd);
    gsp_fd_close(&daemon->lock_fd);
    gsp_buf_free(&daemon->status);
    free(daemon->watched);
    free(daemon->token);
    if (daemon->has_conds) {
        pthread_cond_destroy(&daemon->changed);
        pthread_cond_destroy(&daemon->framed);
    }
    free(daemon);
}

struct gsp_settings_live gsp_daemon__live_settings(struct gsp_daemon *daemon)
{
    gsp_lock_take(&daemon->lock);
    const struct gsp_settings_live copy = daemon->live;
    gsp_lock_release(&daemon->lock);
    return copy;
}

void gsp_daemon_reload(struct gsp_daemon *daemon, const struct gsp_settings_live *settings)
{
    gsp_lock_take(&daemon->lock);
    if (daemon->live.period_ns != settings->period_ns)
        daemon->period_changed = true;
    daemon->live = *settings;
    daemon->settings_changed = true;
    pthread_cond_broadcast(&daemon->changed);
    gsp_lock_release(&daemon->lock);
    gsp_daemon__status_changed(daemon);
}

void gsp_daemon_set_settings_error(struct gsp_daemon *daemon, const char *why)
{
    gsp_lock_take(&daemon->lock);
    snprintf(daemon->settings_error, sizeof(daemon->settings_error), "%s", why);
    gsp_lock_release(&daemon->lock);
    gsp_daemon__status_changed(daemon);
}

uint16_t gsp_daemon__port(const struct gsp_daemon *daemon)
{
    return gsp_http_port(daemon->server);
}

const char *gsp_daemon_url(const struct gsp_daemon *daemon)
{
    return daemon->url;
}

_Static_assert(GSP_DAEMON_CODE_BYTES == GSP_HTTP_CODE_BYTES, "the same text");

int gsp_daemon_login_code(struct gsp_daemon *daemon, char out[GSP_DAEMON_CODE_BYTES],
                          struct gsp_err *err)
{
    return gsp_http_login_code(daemon->server, out, err);
}
