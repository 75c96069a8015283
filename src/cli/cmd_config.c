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
                   "For programs: the answer of a server as it came; of a process an object."),
    GSP_OPT_TOKEN(struct config_opts),
    GSP_OPT_TOKEN_FILE(struct config_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof config localhost:8091", "All settings"},
    {"gsprof config localhost:8091 gsprof.sample_rate", "One, or all whose names begin so"},
    {"gsprof config localhost:8091 gsprof.sample_rate=0.1", "Change one"},
    {"gsprof localhost:8091 config gsprof.sample_rate=0.1", "The other order of words"},
    {"gsprof config 4242", "What the agent in a process can be told"},
    {"gsprof config 4242 gsprof.torch=on gsprof.torch.rate=0.1", "Trace one step in ten"},
};

/* Numbers and truths as such, all else as text. */
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

static int change(struct gsp_remote *remote, char *const *words, struct gsp_body **out)
{
    gsp_auto_buf body = {0};
    struct gsp_json json;
    gsp_json_init(&json, &body);
    gsp_json_obj_begin(&json);
    for (size_t i = 0; words[i]; i++) {
        const char *equals = strchr(words[i], '=');
        if (!equals || equals == words[i])
            return gsp_cli_misuse(remote->parsed, "'%.100s' is not KEY=VALUE", words[i]);
        gsp_json_keysv(&json, (struct gsp_sv){words[i], (size_t)(equals - words[i])});
        put_value(&json, equals + 1);
    }
    gsp_json_obj_end(&json);
    return gsp_remote_ask_object(remote, "PUT", "/config", gsp_buf_sv(&body), out);
}

static int show(const struct gsp_remote *remote, const struct gsp_body *body, const char *prefix)
{
    struct gsp_err err = {0};
    int rc = gsp_remote_show_settings(remote, body, "settings", prefix, &err);
    if (rc == 0)
        rc = gsp_remote_show_members(remote, body, NULL, prefix, &err);
    return rc < 0 ? gsp_remote_fail(remote, &err) : 0;
}

/* Of "KEY=VALUE" alone, the key: what was changed is shown, and not all the rest. */
static const char *key_of(char *const *words, struct gsp_buf *key)
{
    const char *equals = words[0] && !words[1] ? strchr(words[0], '=') : NULL;
    if (!equals)
        return NULL;
    gsp_buf_put(key, words[0], (size_t)(equals - words[0]));
    return gsp_buf_cstr(key);
}

/* A setting where a process or a server belongs.  Some are of both. */
static int whose(const struct gsp_parsed *parsed, const char *key)
{
    const struct gsp_sv name = gsp_sv_of(key);
    const bool is_of_process = gsp_wire_setting_row_find(name) >= 0;
    const bool is_of_server = gsp_setting_find(name) >= 0;
    if (!is_of_process && !is_of_server)
        return 0;
    struct gsp_parsed copy = *parsed;
    snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof config %s %.100s",
             is_of_process ? "PID" : "localhost:8091", key);
    return gsp_cli_misuse(&copy, "%.100s is a setting: of which %s?", key,
                          !is_of_server   ? "process"
                          : is_of_process ? "process or server"
                                          : "server");
}

static int run(const struct gsp_parsed *parsed)
{
    const struct config_opts *opts = parsed->opts;
    struct gsp_remote remote = {0};
    struct gsp_body *answer = NULL;
    gsp_auto_buf key = {0};
    char *const *words = parsed->args;
    const char *address = NULL;
    /* "gsprof config KEY=VALUE" is this machine's. */
    if (words[0] && !strchr(words[0], '='))
        address = *words++;
    if (address && address[strspn(address, "0123456789")] == '\0')
        return gsp_config_target(parsed, address, words, opts->json);
    const char *prefix = words[0] && !strchr(words[0], '=') ? words[0] : NULL;
    if (prefix && words[1])
        return gsp_cli_misuse(parsed, "one KEY to look at, or KEY=VALUE to change");
    int status = address ? whose(parsed, address) : 0;
    if (status == 0)
        status = gsp_remote_open(&remote, parsed, address, &opts->remote);
    if (status == 0 && (prefix || !words[0]))
        status = gsp_remote_ask_object(&remote, "GET", "/config", (struct gsp_sv){0}, &answer);
    else if (status == 0)
        status = change(&remote, words, &answer);
    if (status == 0)
        status = opts->json ? gsp_remote_put_json(&remote)
                            : show(&remote, answer, prefix ? prefix : key_of(words, &key));
    gsp_http_body_free(answer);
    gsp_remote_close(&remote);
    return status;
}

const struct gsp_command gsp_cmd_config = {
    .name = "config",
    .summary = "Show or change the settings of a process or of a server",
    .synopsis = "[PID | HOST:PORT] [KEY | KEY=VALUE...]",
    .about = "HOST:PORT is localhost:8091 when it is left out. What is changed holds until the "
             "server ends or reads its configuration again.\n"
             "PID is a process that the agent is in. A change is taken up with its next step and "
             "holds until it ends; the command waits for that, a second at most, and says "
             "whether it came.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct config_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .args_max = SETTINGS_MAX,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
