/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/hint.h"
#include "cli/remote.h"
#include "cli/term.h"

#define PIDS_MAX  1024U
/* A daemon that stops thousands of sessions writes their files before it responds. */
#define ANSWER_NS (600 * GSP_NS_PER_S)

struct http_opts {
    struct gsp_remote_opts remote;
    struct gsp_opt_list labels; /* only http-profile, like pids, stacks and force */
    struct gsp_opt_list pids;
    const char *name; /* also of http-stop */
    bool stacks;
    bool force;
    bool json;
};

#define OPT_JSON                                                                                   \
    GSP_OPT_SWITCH(struct http_opts, json, "json", 0, false, "Print the JSON response.")

static const struct gsp_opt PROFILE_OPTS[] = {
    {.name = "name",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct http_opts, name),
     .arg = "NAME",
     .default_text = "profiling_TIME",
     .help = "Name of the session and of its file, NAME.json."},
    {.name = "label",
     .kind = GSP_OPT_LIST,
     .offset = offsetof(struct http_opts, labels),
     .arg = "KEY=VALUE",
     .help = "Label to store with the session. Repeatable."},
    {.name = "pid",
     .letter = 'p',
     .kind = GSP_OPT_LIST,
     .offset = offsetof(struct http_opts, pids),
     .arg = "PID",
     .help = "Process to watch during the session. Repeatable, or a list: 1,2,3."},
    GSP_OPT_SWITCH(struct http_opts, stacks, "stacks", 0, false,
                   "Also record stack samples of these processes."),
    GSP_OPT_SWITCH(struct http_opts, force, "force", 0, false,
                   "Overwrite the file of a finished session with this name instead of adding a "
                   "suffix."),
    OPT_JSON,
    GSP_OPT_TOKEN(struct http_opts),
    GSP_OPT_TOKEN_FILE(struct http_opts),
};

static const struct gsp_opt STOP_OPTS[] = {
    {.name = "name",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct http_opts, name),
     .arg = "NAME",
     .default_text = "all active sessions",
     .help = "Session to stop."},
    OPT_JSON,
    GSP_OPT_TOKEN(struct http_opts),
    GSP_OPT_TOKEN_FILE(struct http_opts),
};

static const struct gsp_opt SHOW_OPTS[] = {
    OPT_JSON,
    GSP_OPT_TOKEN(struct http_opts),
    GSP_OPT_TOKEN_FILE(struct http_opts),
};

/* {"key": "value", ...}; values stay text. */
static int put_labels(struct gsp_json *json, const struct gsp_opt_list *labels, struct gsp_err *err)
{
    if (!labels->count)
        return GSP_OK;
    gsp_json_put_obj_begin(json, "labels");
    for (size_t i = 0; i < labels->count; i++) {
        const char *equals = strchr(labels->at[i], '=');
        if (!equals || equals == labels->at[i])
            return gsp_err_set(err, GSP_E_USAGE, 0, "--label: '%.100s' is not KEY=VALUE",
                               labels->at[i]);
        gsp_json_keysv(json, (struct gsp_sv){labels->at[i], (size_t)(equals - labels->at[i])});
        gsp_json_str(json, equals + 1);
    }
    gsp_json_obj_end(json);
    return GSP_OK;
}

static int put_pid(struct gsp_json *json, struct gsp_sv word, struct gsp_err *err)
{
    char text[24];
    int64_t pid = 0;
    snprintf(text, sizeof(text), "%.*s", (int)(word.len < 20 ? word.len : 20), word.p);
    int rc = gsp_parse_i64(text, 1, INT32_MAX, &pid, NULL);
    if (rc < 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "--pid: '%s' is not a process ID", text);
    gsp_json_i64(json, pid);
    return GSP_OK;
}

static int put_pids(struct gsp_json *json, const struct gsp_opt_list *pids, struct gsp_err *err)
{
    size_t count = 0;
    if (!pids->count)
        return GSP_OK;
    gsp_json_put_arr_begin(json, "pids");
    for (size_t i = 0; i < pids->count; i++) {
        struct gsp_sv rest = gsp_sv_of(pids->at[i]);
        struct gsp_sv word = {0};
        while (gsp_sv_split(&rest, ',', &word)) {
            int rc = put_pid(json, word, err);
            if (rc < 0)
                return rc;
            if (++count > PIDS_MAX)
                return gsp_err_set(err, GSP_E_USAGE, 0, "--pid: more than %u processes", PIDS_MAX);
        }
    }
    gsp_json_arr_end(json);
    return GSP_OK;
}

static int make_start(const struct http_opts *opts, struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    if (opts->name)
        gsp_json_put_str(&json, "name", opts->name);
    int rc = put_labels(&json, &opts->labels, err);
    if (rc == GSP_OK)
        rc = put_pids(&json, &opts->pids, err);
    if (opts->stacks)
        gsp_json_put_bool(&json, "stacks", true);
    if (opts->force)
        gsp_json_put_bool(&json, "force", true);
    gsp_json_obj_end(&json);
    if (rc == GSP_OK && opts->stacks && !opts->pids.count)
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "--stacks needs --pid PID");
    return rc;
}

/* Warns about processes that do not exist, such as mistyped pids. */
static void warn_missing(const struct gsp_remote *remote, const struct gsp_body *body)
{
    struct gsp_http_body_ints pids = {0};
    if (gsp_http_body_ints(body, "missing_pids", 1, INT32_MAX, &pids, NULL) == 1) {
        for (size_t i = 0; i < pids.count; i++) {
            char text[80];
            snprintf(text, sizeof(text), "process %d does not exist", (int)pids.at[i]);
            gsp_cli__warn(remote->parsed, gsp_sv_of(text));
        }
    }
    free(pids.at);
}

/* Prints the daemon's message, the output file and the stopped sessions. */
static int print_done(const struct gsp_remote *remote, const struct gsp_body *body)
{
    struct gsp_sv message = {0};
    struct gsp_sv file = {0};
    struct gsp_sv folder = {0};
    struct gsp_err err = {0};
    gsp_auto_buf text = {0};
    if (remote->parsed->globals.quiet)
        return 0;
    int has_message = gsp_http_body_text(body, "message", &message, NULL);
    int has_file = gsp_http_body_text(body, "output_file", &file, NULL);
    if (has_message == 1)
        gsp_buf_term(&text, message);
    else
        gsp_buf_puts(&text, "done");
    if (has_file == 1 && file.len &&
        !(message.len >= file.len && memmem(message.p, message.len, file.p, file.len))) {
        gsp_buf_puts(&text, ": ");
        if (gsp_http_body_text(body, "output_dir", &folder, NULL) == 1 && folder.len) {
            gsp_buf_term(&text, folder);
            gsp_buf_putc(&text, '/');
        }
        gsp_buf_term(&text, file);
    }
    gsp_buf_putc(&text, '\n');
    int rc = gsp_file_put(NULL, false, &text, &err);
    warn_missing(remote, body);
    if (rc == GSP_OK)
        rc = gsp_cli__remote_show_sessions(remote, body, "stopped", &err);
    return rc < 0 ? gsp_cli__remote_fail(remote, &err) : 0;
}

static int print_status(const struct gsp_remote *remote, const struct gsp_body *body)
{
    static const char *const SKIP[] = {"active_sessions", "failed_sessions", "sources", NULL};
    struct gsp_err err = {0};
    int rc = gsp_cli__remote_show_members(remote, body, SKIP, NULL, &err);
    if (rc >= 0)
        rc = gsp_cli__remote_show_sessions(remote, body, "active_sessions", &err);
    if (rc >= 0)
        rc = gsp_cli__remote_show_sessions(remote, body, "failed_sessions", &err);
    return rc < 0 ? gsp_cli__remote_fail(remote, &err) : 0;
}

static int print_sessions(const struct gsp_remote *remote, const struct gsp_body *body)
{
    struct gsp_err err = {0};
    int rc = gsp_cli__remote_show_sessions(remote, body, "sessions", &err);
    if (rc < 0)
        return gsp_cli__remote_fail(remote, &err);
    if (rc == 0 && !remote->parsed->globals.quiet) {
        struct gsp_term term;
        gsp_cli__term_init(&term, STDERR_FILENO, remote->parsed->globals.color);
        gsp_cli__term_line(&term, "No sessions. To start one: gsprof http-profile %s --name NAME",
                           remote->endpoint.p);
    }
    return 0;
}

static int print_login(const struct gsp_remote *remote, const struct gsp_body *body)
{
    struct gsp_sv code = {0};
    struct gsp_sv url = {0};
    struct gsp_err err = {0};
    gsp_auto_buf text = {0};
    gsp_ignore(gsp_http_body_text(body, "code", &code, NULL));
    gsp_ignore(gsp_http_body_text(body, "url", &url, NULL));
    gsp_buf_term(&text, code);
    gsp_buf_putc(&text, '\n');
    if (gsp_file_put(NULL, false, &text, &err) < 0)
        return gsp_cli__remote_fail(remote, &err);
    if (!remote->parsed->globals.quiet) {
        struct gsp_term term;
        gsp_buf_clear(&text);
        gsp_buf_term(&text, url);
        gsp_cli__term_init(&term, STDERR_FILENO, remote->parsed->globals.color);
        gsp_cli__term_line(&term, "The page %s accepts this code once.", gsp_buf_cstr(&text));
    }
    return 0;
}

/* Sends a request and prints the response with print(), or as JSON. */
static int request(const struct gsp_parsed *parsed, const char *method, const char *path,
                   const struct gsp_buf *body,
                   int (*print)(const struct gsp_remote *remote, const struct gsp_body *body))
{
    const struct http_opts *opts = parsed->opts;
    struct gsp_remote remote = {0};
    struct gsp_body *answer = NULL;
    int status = gsp_cli__remote_open(&remote, parsed, parsed->arg_count ? parsed->args[0] : NULL,
                                      &opts->remote);
    remote.timeout_ns = ANSWER_NS;
    if (status == 0)
        status = gsp_cli__remote_request_object(
            &remote, method, path, body ? gsp_buf_sv(body) : (struct gsp_sv){0}, &answer);
    if (status == 0)
        status = opts->json ? gsp_cli__remote_put_json(&remote) : print(&remote, answer);
    gsp_http_body_free(answer);
    gsp_cli__remote_close(&remote);
    return status;
}

static int run_profile(const struct gsp_parsed *parsed)
{
    gsp_auto_buf body = {0};
    struct gsp_err err = {0};
    if (make_start(parsed->opts, &body, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    return request(parsed, "POST", "/profiling/start", &body, print_done);
}

static int run_stop(const struct gsp_parsed *parsed)
{
    const struct http_opts *opts = parsed->opts;
    gsp_auto_buf body = {0};
    struct gsp_json json;
    gsp_json_init(&json, &body);
    gsp_json_obj_begin(&json);
    if (opts->name)
        gsp_json_put_str(&json, "name", opts->name);
    gsp_json_obj_end(&json);
    return request(parsed, "POST", "/profiling/stop", &body, print_done);
}

static int run_status(const struct gsp_parsed *parsed)
{
    return request(parsed, "GET", "/status", NULL, print_status);
}

static int run_sessions(const struct gsp_parsed *parsed)
{
    return request(parsed, "GET", "/profiling/sessions", NULL, print_sessions);
}

static int run_login(const struct gsp_parsed *parsed)
{
    return request(parsed, "POST", "/login/code", NULL, print_login);
}

static const struct gsp_example PROFILE_EXAMPLES[] = {
    {"gsprof http-profile localhost:8091 --name training_epoch_1", "Start a session"},
    {"gsprof http-profile --name load --label phase=1 --pid 4242 --stacks",
     "Add a label and record the stacks of a process"},
    {"gsprof http-profile gpu7:8091", "Start a session on another machine"},
};
static const struct gsp_example STOP_EXAMPLES[] = {
    {"gsprof http-stop localhost:8091 --name training_epoch_1",
     "Stop a session and write its file"},
    {"gsprof http-stop localhost:8091", "Stop all sessions"},
    {"gsprof http-stop --json", "Print JSON"},
};
static const struct gsp_example STATUS_EXAMPLES[] = {
    {"gsprof http-status", "Show the state of the daemon on this machine"},
    {"gsprof http-status unix:/run/gsprof.sock", "Use its Unix socket"},
    {"gsprof http-status gpu7:8091 --json", "Print JSON from another machine"},
};
static const struct gsp_example SESSIONS_EXAMPLES[] = {
    {"gsprof http-sessions localhost:8091", "List active sessions, then finished ones"},
    {"gsprof http-sessions gpu7", "List the sessions of another machine"},
    {"gsprof http-sessions --json", "Print JSON"},
};

static const struct gsp_example LOGIN_EXAMPLES[] = {
    {"gsprof http-login", "Print a code for the page of the daemon on this machine"},
    {"gsprof http-login localhost:8092", "Use another port"},
    {"gsprof http-login gpu7:8091 --token-file token", "Use the token of another machine"},
};

#define ABOUT_ADDRESS                                                                              \
    "HOST:PORT defaults to localhost:8091. HOST alone, PORT alone and unix:/path also work."

const struct gsp_command gsp_cmd_http_profile = {
    .name = "http-profile",
    .summary = "Start a named session on a daemon",
    .synopsis = "[HOST:PORT] [--name NAME] [OPTIONS]",
    .about = "A session is an interval of the daemon's stream of metrics. Sessions may overlap; "
             "each is written to its own file when it stops. `gsprof serve` starts a "
             "daemon.\n" ABOUT_ADDRESS,
    GSP_COMMAND_OPTS(PROFILE_OPTS, struct http_opts),
    GSP_COMMAND_EXAMPLES(PROFILE_EXAMPLES),
    .args_max = 1,
    .lesser = true,
    .run = run_profile,
};

const struct gsp_command gsp_cmd_http_stop = {
    .name = "http-stop",
    .summary = "Stop one or all sessions of a daemon",
    .synopsis = "[HOST:PORT] [--name NAME] [OPTIONS]",
    .about = "The daemon writes the session file to its output folder; `gsprof stat FILE` shows "
             "it.\n" ABOUT_ADDRESS,
    GSP_COMMAND_OPTS(STOP_OPTS, struct http_opts),
    GSP_COMMAND_EXAMPLES(STOP_EXAMPLES),
    .args_max = 1,
    .lesser = true,
    .run = run_stop,
};

const struct gsp_command gsp_cmd_http_status = {
    .name = "http-status",
    .summary = "Show the state of a daemon",
    .synopsis = "[HOST:PORT] [--json]",
    .about = ABOUT_ADDRESS,
    GSP_COMMAND_OPTS(SHOW_OPTS, struct http_opts),
    GSP_COMMAND_EXAMPLES(STATUS_EXAMPLES),
    .args_max = 1,
    .lesser = true,
    .run = run_status,
};

const struct gsp_command gsp_cmd_http_sessions = {
    .name = "http-sessions",
    .summary = "List the sessions of a daemon, active ones first",
    .synopsis = "[HOST:PORT] [--json]",
    .about = ABOUT_ADDRESS,
    GSP_COMMAND_OPTS(SHOW_OPTS, struct http_opts),
    GSP_COMMAND_EXAMPLES(SESSIONS_EXAMPLES),
    .args_max = 1,
    .lesser = true,
    .run = run_sessions,
};

const struct gsp_command gsp_cmd_http_login = {
    .name = "http-login",
    .summary = "Print a one-time code to log in to the page of a daemon",
    .synopsis = "[HOST:PORT] [--json]",
    .about = "The page asks for the code, which works once and replaces earlier ones. The login "
             "lasts 12 hours and then counts as the token. Only the daemon's user, root, and "
             "clients with the token get a code.\n" ABOUT_ADDRESS,
    GSP_COMMAND_OPTS(SHOW_OPTS, struct http_opts),
    GSP_COMMAND_EXAMPLES(LOGIN_EXAMPLES),
    .args_max = 1,
    .lesser = true,
    .run = run_login,
};
