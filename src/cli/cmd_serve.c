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
#include "base/xdg.h"
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
    bool all_users;
    bool background;
};

static const struct gsp_opt OPTS[] = {
    {.name = "bind",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct serve_opts, bind),
     .arg = "ADDRESS",
     .default_text = "127.0.0.1",
     .help = "Address to listen on. An address that other machines can reach needs --token-file."},
    {.name = "port",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct serve_opts, port),
     .arg = "N",
     .default_text = "8091",
     .help = "Port to listen on; 0 picks a free port."},
    {.name = "socket",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, socket_path),
     .arg = "PATH",
     .default_text = "port-N.sock in the state folder",
     .help = "Unix socket, which only this user can access and which needs no token. Commands use "
             "the default one by themselves, another one as `gsprof http-status unix:PATH`."},
    {.name = "freq",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct serve_opts, freq),
     .arg = "DURATION",
     .default_text = "200ms",
     .help = "Interval between metric frames, at least 10ms. `gsprof config` changes it later."},
    {.name = "output-dir",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, output_dir),
     .arg = "DIR",
     .default_text = "the current folder",
     .help = "Folder for session files."},
    {.name = "state-dir",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, state_dir),
     .arg = "DIR",
     .default_text = "$XDG_STATE_HOME/gsprof",
     .help = "Folder for the frame log and the session journal. Each daemon needs its own.",
     .advanced = true},
    GSP_OPT_SWITCH(struct serve_opts, background, "background", 0, false,
                   "Run in the background. Prints the pid and the URL once the port is open."),
    {.name = "token-file",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, token_file),
     .arg = "FILE",
     .help = "File with the access token that every request must carry."},
    GSP_OPT_SWITCH(struct serve_opts, allow_control, "allow-control", 0, false,
                   "Let clients with the token change settings, attach to processes and record "
                   "them. The owner's Unix socket always allows it."),
    GSP_OPT_SWITCH(struct serve_opts, all_users, "all-users", 0, true,
                   "As root: read the tables of all users, not only those of root."),
    {.name = "config",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct serve_opts, config),
     .arg = "FILE",
     .default_text = "$XDG_CONFIG_HOME/gsprof/config.toml",
     .help = "Settings file; read again on SIGHUP."},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof serve --output-dir sessions", "Collect metrics and write session files to a folder"},
    {"gsprof serve --background --freq 1s", "Run in the background with one frame per second"},
    {"gsprof serve --bind 0.0.0.0 --token-file token", "Accept requests from other machines"},
    {"gsprof serve --socket gsprof.sock", "Choose the path of the Unix socket"},
    {"gsprof serve --token-file token --allow-control",
     "Let clients with the token record processes and change settings"},
};

/* Options override every other source of settings. */
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
        {"all-users", "all_users", opts->all_users ? "true" : NULL},
    };
    for (size_t i = 0; i < GSP_COUNT(flags); i++) {
        int row = gsp_daemon_setting_find(gsp_sv_of(flags[i].setting));
        if (!flags[i].value || row < 0)
            continue;
        struct gsp_err why = {0};
        if (gsp_daemon_setting_set(settings, (size_t)row, gsp_sv_of(flags[i].value), GSP_FROM_FLAG,
                                   &why) < 0)
            return gsp_err_set(err, GSP_E_USAGE, 0, "--%s: %.200s", flags[i].name, why.msg);
    }
    return GSP_OK;
}

/* Other processes get these paths, and the daemon may change its working directory. */
static int make_absolute(char path[GSP_SETTING_CHARS], struct gsp_err *err)
{
    char here[GSP_SETTING_CHARS];
    char whole[2 * GSP_SETTING_CHARS];
    if (path[0] == '/' || !path[0])
        return GSP_OK;
    if (!getcwd(here, sizeof(here))) {
        gsp_err_fill(err, GSP_E_NOFILE, errno, "the current folder does not exist");
        gsp_err_set_reason(err, GSP_REASON_FOLDER);
        return GSP_E_NOFILE;
    }
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
    if (settings->fixed.state_dir[0] || gsp_xdg_path(GSP_XDG_STATE, "", settings->fixed.state_dir,
                                                     sizeof(settings->fixed.state_dir)))
        return GSP_OK;
    gsp_err_fill(err, GSP_E_USAGE, 0,
                 "no folder for the daemon's state: neither XDG_STATE_HOME nor HOME is set");
    gsp_err_set_reason(err, GSP_REASON_FOLDER);
    return GSP_E_USAGE;
}

static int load(const struct serve_opts *opts, struct gsp_settings *settings, struct gsp_err *err)
{
    int rc = gsp_daemon_settings_load(settings, opts->config, err);
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

/* A one-time code for the page, only on a terminal: other users may be able to read a log file. */
static void report_login(const struct gsp_parsed *parsed, struct gsp_daemon *daemon)
{
    struct gsp_term term;
    char code[GSP_DAEMON_CODE_BYTES];
    if (parsed->globals.quiet || !isatty(STDERR_FILENO) ||
        gsp_daemon_login_code(daemon, code, NULL) < 0)
        return;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__term_line(&term, "The page %s accepts the code %s once.", gsp_daemon_url(daemon),
                       code);
}

static void report_serving(const struct gsp_parsed *parsed, const struct gsp_settings *settings,
                           const char *url)
{
    struct gsp_term term;
    char period[32];
    if (parsed->globals.quiet)
        return;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__term_line(
        &term,
        "Serving %s, one frame every %s; session files go to %s.%s%s%s%s Press Ctrl-C "
        "to stop.",
        url, gsp_fmt_duration(settings->live.period_ns, period, sizeof(period)),
        settings->fixed.output_dir,
        settings->fixed.token_file[0] ? " Requests need the token." : "",
        settings->fixed.socket_path[0] ? " Also listening on unix:" : "",
        settings->fixed.socket_path, settings->fixed.socket_path[0] ? "." : "");
}

/* Closes the terminal and sends the pid and the URL to the parent, which prints them and exits. */
static void detach(int ready_fd, const char *url)
{
    char line[200];
    snprintf(line, sizeof(line), "%d %s\n", (int)getpid(), url);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(null);
    }
    gsp_ignore(gsp_fd_write_all(ready_fd, line, strlen(line), NULL)); /* the parent sees the EOF */
    close(ready_fd);
}

/* Reloads the settings on SIGHUP; returns on any other signal. */
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
        gsp_daemon_set_settings_error(daemon, rc < 0 ? err.msg : "");
        if (rc == GSP_OK)
            gsp_daemon_reload(daemon, &settings.live);
        else
            gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    }
}

static int serve(const struct gsp_parsed *parsed, const struct gsp_settings *settings, int ready_fd)
{
    struct gsp_daemon *daemon = NULL;
    struct gsp_err err = {0};
    sigset_t signals;
    gsp_cli__raise_descriptors();
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    /* Before any thread starts: all threads inherit the mask, so only sigwait() gets the signals.
     */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int rc = gsp_daemon_open(settings, &daemon, &err);
    if (rc == GSP_OK)
        rc = gsp_daemon_start(daemon, &err);
    if (rc < 0) {
        gsp_daemon_close(daemon);
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    }
    gsp_cli__events_ready_address(gsp_daemon_url(daemon));
    if (ready_fd < 0)
        report_serving(parsed, settings, gsp_daemon_url(daemon));
    report_login(parsed, daemon);
    if (ready_fd >= 0)
        detach(ready_fd, gsp_daemon_url(daemon));
    wait_for_end(parsed, daemon, &signals);
    gsp_daemon_close(daemon);
    return 0;
}

/* The parent of --background: prints the line that the child sends when the port is open. */
static int wait_ready(int fd, pid_t child)
{
    gsp_auto_buf line = {0};
    if (gsp_fd_read_all(fd, 4096, &line, NULL) == GSP_OK && line.len) {
        gsp_ignore(gsp_fd_write_all(STDOUT_FILENO, line.p, line.len, NULL)); /* the daemon runs */
        return 0;
    }
    return gsp_record_background_status(child);
}

static int serve_in_background(const struct gsp_parsed *parsed, const struct gsp_settings *settings)
{
    struct gsp_err err = {0};
    int fd = -1;
    const pid_t child = gsp_record_background_fork(&fd, &err);
    if (child < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    if (child == 0)
        return serve(parsed, settings, fd);
    int status = wait_ready(fd, child);
    close(fd);
    return status;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct serve_opts *opts = parsed->opts;
    struct gsp_settings settings;
    struct gsp_err err = {0};
    if (load(opts, &settings, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->config}, &err);
    return opts->background ? serve_in_background(parsed, &settings) : serve(parsed, &settings, -1);
}

const struct gsp_command gsp_cmd_serve = {
    .name = "serve",
    .summary = "Run the daemon: collect metrics and serve sessions over HTTP",
    .synopsis = "[--port N] [--freq DURATION] [--output-dir DIR] [OPTIONS]",
    .about =
        "The daemon reads the counters of the machine, of its GPUs and of the watched processes at "
        "the interval of --freq, and stores them as numbered metric frames. A session is a named "
        "interval of frames. Any number of sessions can be active; each is written to a JSON file "
        "in the output folder when it stops.\n"
        "Sessions survive a restart: after a crash or a stop, the next daemon continues them and "
        "marks the gap.\n"
        "SIGTERM or Ctrl-C stops the daemon; SIGHUP reloads the settings. Command-line options "
        "override the environment (GSPROF_SAMPLE_RATE), which overrides config.toml.",
    GSP_COMMAND_OPTS(OPTS, struct serve_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .run = run,
};

struct worker_opts {
    const char *format;
    int64_t timeout_ns;
    int64_t limit;
    const char *memory;
    int64_t only_pid;
    bool stacks;
    bool all_users;
};

static const char *worker_format(size_t i)
{
    static const char *const names[] = {"json", "object", "csv", "csv-raw", "arrow"};
    return i < GSP_COUNT(names) ? names[i] : NULL;
}

static const struct gsp_opt WORKER_OPTS[] = {
    {.name = "format",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct worker_opts, format),
     .arg = "NAME",
     .choice = worker_format,
     .fallback = "json",
     .help = "Output format."},
    {.name = "limit",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct worker_opts, limit),
     .arg = "N",
     .fallback = "100000",
     .min = 1,
     .max = 1e9,
     .help = "Maximum number of rows."},
    {.name = "memory",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct worker_opts, memory),
     .arg = "SIZE",
     .fallback = "1G",
     .help = "Memory limit of the query."},
    {.name = "timeout",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct worker_opts, timeout_ns),
     .arg = "DURATION",
     .fallback = "30s",
     .help = "Time limit of the query."},
    GSP_OPT_SWITCH(struct worker_opts, stacks, "stacks", 0, false,
                   "Include the current stacks of running processes (python.backtrace)."),
    GSP_OPT_SWITCH(struct worker_opts, all_users, "all-users", 0, false,
                   "As root: read the tables of all users, not only those of root."),
    {.name = "only-pid",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct worker_opts, only_pid),
     .arg = "PID",
     .fallback = "0",
     .max = INT32_MAX,
     .help = "Read only the rings of this process, and refuse the python tables."},
};

static const struct gsp_example WORKER_EXAMPLES[] = {
    {"gsprof query-worker", "Run a query with the limits of the daemon"},
    {"gsprof query-worker --format csv", "Write another format"},
    {"gsprof query-worker --timeout 1s --memory 64M", "Set other limits"},
};

static int run_worker(const struct gsp_parsed *parsed)
{
    const struct worker_opts *opts = parsed->opts;
    struct gsp_query_job order = {.format = opts->format,
                                  .timeout_ns = opts->timeout_ns,
                                  .row_limit = (uint64_t)opts->limit,
                                  .stacks = opts->stacks,
                                  .all_users = opts->all_users,
                                  .only_pid = opts->only_pid};
    struct gsp_err err = {0};
    if (gsp_parse_size(opts->memory, &order.memory_bytes, &err) < 0)
        return gsp_cli__misuse(parsed, "--memory: %s", err.msg);
    return gsp_daemon_query_worker_main(&order);
}

const struct gsp_command gsp_cmd_query_worker = {
    .name = "query-worker",
    .summary = "Run one query for the daemon",
    .synopsis = "[--format NAME]",
    .about = "`gsprof serve` starts this command for each query. Reads SQL from stdin.",
    GSP_COMMAND_OPTS(WORKER_OPTS, struct worker_opts),
    GSP_COMMAND_EXAMPLES(WORKER_EXAMPLES),
    .hidden = true,
    .run = run_worker,
};
