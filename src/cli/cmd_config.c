/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/common.h"
#include "cli/process_settings.h"
#include "cli/remote.h"
#include "daemon/settings.h"
#include "wire/control.h"

#define SETTINGS_MAX 32U

struct config_opts {
    struct gsp_remote_opts remote;
    bool json;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct config_opts, json, "json", 0, false,
                   "Print JSON: the daemon's response, or an object for a process."),
    GSP_OPT_TOKEN(struct config_opts),
    GSP_OPT_TOKEN_FILE(struct config_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof config localhost:8091", "Show all settings of a daemon"},
    {"gsprof config localhost:8091 gsprof.sample_rate", "Show settings with this prefix"},
    {"gsprof config localhost:8091 gsprof.sample_rate=0.1", "Change a setting"},
    {"gsprof localhost:8091 config gsprof.sample_rate=0.1", "The address may come first"},
    {"gsprof config 4242", "Show the settings of the agent in a process"},
    {"gsprof config 4242 gsprof.torch=on gsprof.torch.rate=0.1", "Trace one step in ten"},
};

/* Writes numbers and booleans as such, everything else as text. */
static void put_value(struct gsp_json *json, const char *text)
{
    double number = 0;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        gsp_json_bool(json, text[0] == 't');
    else if (gsp_parse_f64(text, -HUGE_VAL, HUGE_VAL, &number, NULL) == GSP_OK && isfinite(number))
        gsp_json_f64(json, number);
    else
        gsp_json_str(json, text);
}

static int change(struct gsp_remote *remote, char *const *args, struct gsp_body **out)
{
    gsp_auto_buf body = {0};
    struct gsp_json json;
    gsp_json_init(&json, &body);
    gsp_json_obj_begin(&json);
    for (size_t i = 0; args[i]; i++) {
        const char *equals = strchr(args[i], '=');
        if (!equals || equals == args[i])
            return gsp_cli__misuse(remote->parsed, "'%.100s' is not KEY=VALUE", args[i]);
        gsp_json_keysv(&json, (struct gsp_sv){args[i], (size_t)(equals - args[i])});
        put_value(&json, equals + 1);
    }
    gsp_json_obj_end(&json);
    return gsp_cli__remote_request_object(remote, "PUT", "/config", gsp_buf_sv(&body), out);
}

static int show(const struct gsp_remote *remote, const struct gsp_body *body, const char *prefix)
{
    struct gsp_err err = {0};
    int rc = gsp_cli__remote_show_settings(remote, body, "settings", prefix, &err);
    if (rc == 0)
        rc = gsp_cli__remote_show_members(remote, body, NULL, prefix, &err);
    return rc < 0 ? gsp_cli__remote_fail(remote, &err) : 0;
}

/* The key of a single "KEY=VALUE", so that only the changed setting is shown; otherwise NULL. */
static const char *key_of(char *const *args, struct gsp_buf *key)
{
    const char *equals = args[0] && !args[1] ? strchr(args[0], '=') : NULL;
    if (!equals)
        return NULL;
    gsp_buf_put(key, args[0], (size_t)(equals - args[0]));
    return gsp_buf_cstr(key);
}

/* Reports a setting given in place of a PID or HOST:PORT. Some settings exist in both. */
static int check_address(const struct gsp_parsed *parsed, const char *key)
{
    const struct gsp_sv name = gsp_sv_of(key);
    const bool is_of_process = gsp_wire_setting_row_find(name) >= 0;
    const bool is_of_server = gsp_daemon_setting_find(name) >= 0;
    if (!is_of_process && !is_of_server)
        return 0;
    struct gsp_parsed copy = *parsed;
    snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof config %s %.100s",
             is_of_process ? "PID" : "localhost:8091", key);
    return gsp_cli__misuse(&copy, "config needs %s before the setting %.100s",
                           !is_of_server   ? "a PID"
                           : is_of_process ? "a PID or HOST:PORT"
                                           : "HOST:PORT",
                           key);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct config_opts *opts = parsed->opts;
    struct gsp_remote remote = {0};
    struct gsp_body *answer = NULL;
    gsp_auto_buf key = {0};
    char *const *args = parsed->args;
    const char *address = NULL;
    /* "gsprof config KEY=VALUE" means the daemon of this machine. */
    if (args[0] && !strchr(args[0], '='))
        address = *args++;
    if (address && address[strspn(address, "0123456789")] == '\0')
        return gsp_cli__process_settings_run(parsed, address, args, opts->json);
    const char *prefix = args[0] && !strchr(args[0], '=') ? args[0] : NULL;
    if (prefix && args[1])
        return gsp_cli__misuse(parsed, "config needs one KEY to show, or KEY=VALUE to change");
    int status = address ? check_address(parsed, address) : 0;
    if (status == 0)
        status = gsp_cli__remote_open(&remote, parsed, address, &opts->remote);
    if (status == 0 && (prefix || !args[0]))
        status =
            gsp_cli__remote_request_object(&remote, "GET", "/config", (struct gsp_sv){0}, &answer);
    else if (status == 0)
        status = change(&remote, args, &answer);
    if (status == 0)
        status = opts->json ? gsp_cli__remote_put_json(&remote)
                            : show(&remote, answer, prefix ? prefix : key_of(args, &key));
    gsp_http_body_free(answer);
    gsp_cli__remote_close(&remote);
    return status;
}

const struct gsp_command gsp_cmd_config = {
    .name = "config",
    .summary = "Show or change the settings of a process or a daemon",
    .synopsis = "[PID | HOST:PORT] [KEY | KEY=VALUE...]",
    .about = "HOST:PORT defaults to localhost:8091. Changes last until the daemon stops or reloads "
             "its configuration.\n"
             "PID is a process with the agent. It applies a change at its next step and keeps it "
             "until it exits. gsprof waits up to one second and reports whether the change was "
             "applied.",
    GSP_COMMAND_OPTS(OPTS, struct config_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_max = SETTINGS_MAX,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
