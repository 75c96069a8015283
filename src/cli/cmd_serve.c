/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/events.h"
#include "cli/hint.h"
#include "daemon/daemon.h"
#include "daemon/query_worker.h"
#include "daemon/settings.h"
#include "record/launch.h"

struct serve_opts {
    const char *bind;
    const char *port;
    const char *socket_path;
    const char *freq;
    const char *output_dir;
    const char *state_dir;
    const char *token_file;
    const char *config;
    bool allow_control;
    bool background;
};

static const struct gsp_opt OPTS[] = {
    {.name = "bind",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct serve_opts, bind),
     .arg = "ADDRESS",
     .help = "Address to listen at, 127.0.0.1 unless given. One that other machines can reach "
             "needs --token-file."},
    {.name = "port",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct serve_opts, port),
     .arg = "N",
     .help = "Port to listen at, 8091 unless given; 0 is a free one."},
    {.name = "socket",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, socket_path),
     .arg = "PATH",
     .help = "Listen at a Unix socket too, which only this user can use, without a token: "
             "`gsprof http-status unix:PATH`."},
    {.name = "freq",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct serve_opts, freq),
     .arg = "DURATION",
     .help = "Time between two frames, 200ms unless given; from 10ms on. `gsprof config` changes "
             "it later."},
    {.name = "output-dir",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, output_dir),
     .arg = "DIR",
     .help = "Where the files of sessions go; the current folder unless given."},
    {.name = "state-dir",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, state_dir),
     .arg = "DIR",
     .help = "Where the log of frames and the journal of sessions are; $XDG_STATE_HOME/gsprof "
             "unless given. Each daemon needs its own.",
     .advanced = true},
    GSP_OPT_SWITCH(struct serve_opts, background, "background", 0, false,
                   "Go on in the background once the port is open; prints the pid and the URL."),
    {.name = "token-file",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, token_file),
     .arg = "FILE",
     .help = "A file with a word that every request must carry."},
    GSP_OPT_SWITCH(struct serve_opts, allow_control, "allow-control", 0, false,
                   "Requests may look into processes: attach, dump, record."),
    {.name = "config",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, config),
     .arg = "FILE",
     .help = "Settings, instead of $XDG_CONFIG_HOME/gsprof/config.toml; read again on SIGHUP."},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof serve --output-dir sessions", "Collect, and let sessions begin and end over HTTP"},
    {"gsprof serve --background --freq 1s", "In the background, a frame a second"},
    {"gsprof serve --bind 0.0.0.0 --token-file token", "For other machines too"},
    {"gsprof serve --socket gsprof.sock", "For programs of this user that cannot use a port"},
    {"gsprof serve --allow-control", "Requests may take the stacks of processes"},
};

/* Flags are settings of the highest rank. */
static int apply_flags(const struct serve_opts *opts, struct gsp_settings *settings,
                       struct gsp_err *err)
{
    const struct {
        const char *name;
        const char *setting;
        const char *value;
    } flags[] = {
        {"bind", "bind", opts->bind},
        {"port", "port", opts->port},
        {"socket", "socket", opts->socket_path},
        {"freq", "sample_rate", opts->freq},
        {"output-dir", "output_dir", opts->output_dir},
        {"state-dir", "state_dir", opts->state_dir},
        {"token-file", "token_file", opts->token_file},
        {"allow-control", "allow_control", opts->allow_control ? "true" : NULL},
    };
    for (size_t i = 0; i < GSP_COUNT(flags); i++) {
        int row = gsp_setting_find(gsp_sv_of(flags[i].setting));
        if (!flags[i].value || row < 0)
            continue;
        struct gsp_err why = {0};
        if (gsp_setting_set(settings, (size_t)row, gsp_sv_of(flags[i].value), GSP_FROM_FLAG, &why) <
            0)
            return gsp_err_set(err, GSP_E_USAGE, 0, "--%s: %.200s", flags[i].name, why.msg);
    }
    return GSP_OK;
}

/* Paths are told to other processes, and the daemon may go on elsewhere. */
static int make_absolute(char path[GSP_SETTING_CHARS], struct gsp_err *err)
{
    char here[GSP_SETTING_CHARS];
    char whole[2 * GSP_SETTING_CHARS];
    if (path[0] == '/' || !path[0])
        return GSP_OK;
    if (!getcwd(here, sizeof(here)))
        return gsp_err_set(err, GSP_E_NOFILE, errno, "the current folder is gone");
    if (strcmp(path, ".") == 0)
        snprintf(whole, sizeof(whole), "%s", here);
    else
        snprintf(whole, sizeof(whole), "%s/%s", here, path);
    if (strlen(whole) >= GSP_SETTING_CHARS)
        return gsp_err_set(err, GSP_E_USAGE, 0, "a path is too long");
    memcpy(path, whole, strlen(whole) + 1);
    return GSP_OK;
}

static int find_state(struct gsp_settings *settings, struct gsp_err *err)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = 0;
    if (settings->fixed.state_dir[0])
        return GSP_OK;
    if (state && state[0] == '/')
        n = snprintf(settings->fixed.state_dir, sizeof(settings->fixed.state_dir), "%s/gsprof",
                     state);
    else if (home && home[0] == '/')
        n = snprintf(settings->fixed.state_dir, sizeof(settings->fixed.state_dir),
                     "%s/.local/state/gsprof", home);
    if (n <= 0 || (size_t)n >= sizeof(settings->fixed.state_dir))
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "no folder for the daemon's state: neither "
                           "XDG_STATE_HOME nor HOME is set");
    return GSP_OK;
}

static int load(const struct serve_opts *opts, struct gsp_settings *settings, struct gsp_err *err)
{
    int rc = gsp_settings_load(settings, opts->config, err);
    if (rc == GSP_OK)
        rc = apply_flags(opts, settings, err);
    if (rc == GSP_OK)
        rc = find_state(settings, err);
    if (rc == GSP_OK)
        rc = make_absolute(settings->fixed.output_dir, err);
    if (rc == GSP_OK)
        rc = make_absolute(settings->fixed.state_dir, err);
    if (rc == GSP_OK)
        rc = make_absolute(settings->fixed.token_file, err);
    if (rc == GSP_OK)
        rc = make_absolute(settings->fixed.socket_path, err);
    return rc;
}

static void put_url(const struct gsp_settings *settings, uint16_t port, char *out, size_t cap)
{
    const bool six = strchr(settings->fixed.bind, ':') != NULL;
    snprintf(out, cap, "http://%s%s%s:%u", six ? "[" : "", settings->fixed.bind, six ? "]" : "",
             port);
}

static void report_ready(const struct gsp_settings *settings, uint16_t port)
{
    char url[160];
    put_url(settings, port, url, sizeof(url));
    gsp_events_ready_address(url);
}

static void say_serving(const struct gsp_parsed *parsed, const struct gsp_settings *settings,
                        uint16_t port)
{
    struct gsp_term term;
    char url[160];
    char period[32];
    if (parsed->globals.quiet)
        return;
    gsp_term_init(&term, STDERR_FILENO, parsed->globals.color);
    put_url(settings, port, url, sizeof(url));
    gsp_term_line(&term,
                  "Serving %s, a frame every %s; sessions go to %s.%s%s%s%s Control-C to stop.",
                  url, gsp_fmt_duration(settings->live.period_ns, period, sizeof(period)),
                  settings->fixed.output_dir,
                  settings->fixed.token_file[0] ? " Requests need the token." : "",
                  settings->fixed.socket_path[0] ? " Also at unix:" : "",
                  settings->fixed.socket_path, settings->fixed.socket_path[0] ? "." : "");
}

/* The one that started us reads pid and URL and ends; from here on nobody listens to us. */
static void leave(int ready_fd, const struct gsp_settings *settings, uint16_t port)
{
    char url[160];
    char line[200];
    put_url(settings, port, url, sizeof(url));
    snprintf(line, sizeof(line), "%d %s\n", (int)getpid(), url);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(null);
    }
    gsp_ignore(gsp_fd_write_all(ready_fd, line, strlen(line), NULL)); /* then it sees our end */
    close(ready_fd);
}

/* Until a signal ends it. */
static void wait_for_end(const struct gsp_parsed *parsed, struct gsp_daemon *daemon,
                         const sigset_t *signals)
{
    for (;;) {
        int number = 0;
        struct gsp_settings settings;
        struct gsp_err err = {0};
        if (sigwait(signals, &number) != 0 || number != SIGHUP)
            return;
        int rc = load(parsed->opts, &settings, &err);
        gsp_daemon_note_settings(daemon, rc < 0 ? err.msg : "");
        if (rc == GSP_OK)
            gsp_daemon_reload(daemon, &settings.live);
        else
            gsp_cli_fail(parsed, &(struct gsp_hint_context){0}, &err);
    }
}

static int serve(const struct gsp_parsed *parsed, const struct gsp_settings *settings, int ready_fd)
{
    struct gsp_daemon *daemon = NULL;
    struct gsp_err err = {0};
    sigset_t signals;
    gsp_cli_raise_descriptors();
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    /* Before there are threads: all of them inherit it, and only sigwait() gets them. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int rc = gsp_daemon_open(settings, &daemon, &err);
    if (rc == GSP_OK)
        rc = gsp_daemon_start(daemon, &err);
    if (rc < 0) {
        gsp_daemon_close(daemon);
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){0}, &err);
    }
    report_ready(settings, gsp_daemon_port(daemon));
    if (ready_fd >= 0)
        leave(ready_fd, settings, gsp_daemon_port(daemon));
    else
        say_serving(parsed, settings, gsp_daemon_port(daemon));
    wait_for_end(parsed, daemon, &signals);
    gsp_daemon_close(daemon);
    return 0;
}

/* The parent's part of --background: waits for the word that the port is open. */
static int hear(int fd, pid_t child)
{
    gsp_auto_buf line = {0};
    if (gsp_fd_read_all(fd, 4096, &line, NULL) == GSP_OK && line.len) {
        gsp_ignore(gsp_fd_write_all(STDOUT_FILENO, line.p, line.len, NULL)); /* it runs anyway */
        return 0;
    }
    return gsp_launch_apart_status(child);
}

static int serve_apart(const struct gsp_parsed *parsed, const struct gsp_settings *settings)
{
    struct gsp_err err = {0};
    int fd = -1;
    const pid_t child = gsp_launch_apart(&fd, &err);
    if (child < 0)
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){0}, &err);
    if (child == 0)
        return serve(parsed, settings, fd);
    int status = hear(fd, child);
    close(fd);
    return status;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct serve_opts *opts = parsed->opts;
    struct gsp_settings settings;
    struct gsp_err err = {0};
    if (load(opts, &settings, &err) < 0)
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){.path = opts->config}, &err);
    return opts->background ? serve_apart(parsed, &settings) : serve(parsed, &settings, -1);
}

const struct gsp_command gsp_cmd_serve = {
    .name = "serve",
    .summary = "Collect metrics, and let sessions begin and end over HTTP",
    .synopsis = "[--port N] [--freq DURATION] [--output-dir DIR] [OPTIONS]",
    .about =
        "The daemon reads the counters of the machine, its GPUs and the processes that it is "
        "asked to watch, as often as --freq says, and keeps them as numbered frames. A session is "
        "a named stretch of them: any number at once, each a JSON file in the output folder when "
        "it ends.\n"
        "Sessions survive the daemon: one that is killed or stopped and started again goes on "
        "with them, and the gap is marked.\n"
        "SIGTERM or Control-C stops it, SIGHUP makes it read its settings again. Settings come "
        "from config.toml, then from the environment (GSPROF_SAMPLE_RATE), then from flags.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct serve_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .run = run,
};

struct worker_opts {
    const char *format;
    int64_t timeout_ns;
    int64_t limit;
    const char *memory;
    bool stacks;
};

static const char *worker_format(size_t i)
{
    static const char *const names[] = {"json", "object", "csv", "arrow"};
    return i < GSP_COUNT(names) ? names[i] : NULL;
}

static const struct gsp_opt WORKER_OPTS[] = {
    {.name = "format",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct worker_opts, format),
     .arg = "NAME",
     .choice = worker_format,
     .fallback = "json",
     .help = "Format of the rows."},
    {.name = "limit",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct worker_opts, limit),
     .arg = "N",
     .fallback = "100000",
     .min = 1,
     .max = 1e9,
     .help = "Rows at most."},
    {.name = "memory",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct worker_opts, memory),
     .arg = "SIZE",
     .fallback = "1G",
     .help = "Memory that the query may take."},
    {.name = "timeout",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct worker_opts, timeout_ns),
     .arg = "DURATION",
     .fallback = "30s",
     .help = "A query that takes longer is ended."},
    {.name = "stacks",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct worker_opts, stacks),
     .help = "Include the present stacks of running processes (python.backtrace)."},
};

static const struct gsp_example WORKER_EXAMPLES[] = {
    {"gsprof query-worker", "As the daemon does it, with its limits"},
    {"gsprof query-worker --format csv", "Another format"},
    {"gsprof query-worker --timeout 1s --memory 64M", "Other limits"},
};

static int run_worker(const struct gsp_parsed *parsed)
{
    const struct worker_opts *opts = parsed->opts;
    struct gsp_query_order order = {.format = opts->format,
                                    .timeout_ns = opts->timeout_ns,
                                    .row_limit = (uint64_t)opts->limit,
                                    .stacks = opts->stacks};
    struct gsp_err err = {0};
    if (gsp_parse_size(opts->memory, &order.memory_bytes, &err) < 0)
        return gsp_cli_misuse(parsed, "--memory: %s", err.msg);
    return gsp_query_worker_main(&order);
}

const struct gsp_command gsp_cmd_query_worker = {
    .name = "query-worker",
    .summary = "Answer one query of the daemon",
    .synopsis = "[--format NAME]",
    .about = "What `gsprof serve` starts for each query: reads SQL from stdin.",
    .opts = WORKER_OPTS,
    .opt_count = GSP_COUNT(WORKER_OPTS),
    .opts_size = sizeof(struct worker_opts),
    .examples = WORKER_EXAMPLES,
    .example_count = GSP_COUNT(WORKER_EXAMPLES),
    .hidden = true,
    .run = run_worker,
};
