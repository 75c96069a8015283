/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "source/endpoint.h"

/* Suggestions must be closer than this many edits. */
#define DISTANCE_MAX 3U
/* Accepted as a duration if the option has no default. */
#define UNLIMITED    "unlimited"

static const char *color_choice(size_t i)
{
    static const char *const values[] = {"auto", "always", "never"};
    return i < GSP_COUNT(values) ? values[i] : NULL;
}

const struct gsp_opt gsp_global_opts[] = {
    GSP_OPT_SWITCH(struct gsp_globals, help_long, "help", 'h', false,
                   "Print help: -h prints a summary, --help all options."),
    GSP_OPT_SWITCH(struct gsp_globals, quiet, "quiet", 'q', false, "Print errors only."),
    {.name = "verbose",
     .letter = 'v',
     .kind = GSP_OPT_COUNT,
     .offset = offsetof(struct gsp_globals, verbose),
     .help = "Print what gsprof does; -vv prints more.",
     .advanced = true},
    {.name = "color",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct gsp_globals, color),
     .arg = "WHEN",
     .fallback = "auto",
     .help = "When to use colour. auto honours NO_COLOR and CLICOLOR_FORCE.",
     .choice = color_choice,
     .advanced = true},
    {.name = "ready-fd",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct gsp_globals, ready_fd),
     .arg = "FD",
     .fallback = "-1",
     .default_text = "none",
     .min = -1,
     .max = INT_MAX,
     .help =
         "Write events to this file descriptor, one JSON object per line: ready, warning, error, "
         "done. For programs that start gsprof.",
     .advanced = true},
    GSP_OPT_SWITCH(struct gsp_globals, version, "version", 'V', true,
                   "Print the version and exit."),
};
const size_t gsp_global_opt_count = GSP_COUNT(gsp_global_opts);

/* State of the parser. */
struct walk {
    int argc;
    char **argv;
    int i; /* index of the current word */
    struct gsp_parsed *parsed;
    struct gsp_err *err;
    char where[40]; /* " of record", or "" */
};

/* An option and the struct that its offset refers to. */
struct found {
    const struct gsp_opt *opt;
    char *base;
};

static const struct gsp_opt *find_long(const struct gsp_opt *opts, size_t count, struct gsp_sv name)
{
    for (size_t i = 0; i < count; i++)
        if (gsp_sv_eq(gsp_sv_of(opts[i].name), name))
            return &opts[i];
    return NULL;
}

static const struct gsp_opt *find_letter(const struct gsp_opt *opts, size_t count, char letter)
{
    for (size_t i = 0; i < count; i++)
        if (opts[i].letter == letter)
            return &opts[i];
    return NULL;
}

static bool lookup(struct walk *walk, struct gsp_sv name, char letter, struct found *out)
{
    const struct gsp_command *command = walk->parsed->command;
    if (command) {
        out->opt = letter ? find_letter(command->opts, command->opt_count, letter)
                          : find_long(command->opts, command->opt_count, name);
        out->base = walk->parsed->opts;
        if (out->opt)
            return true;
    }
    out->opt = letter ? find_letter(gsp_global_opts, gsp_global_opt_count, letter)
                      : find_long(gsp_global_opts, gsp_global_opt_count, name);
    out->base = (char *)&walk->parsed->globals;
    return out->opt != NULL;
}

static void nearest(const struct gsp_opt *opts, size_t count, const char *name, size_t *best,
                    const char **out)
{
    for (size_t i = 0; i < count; i++) {
        size_t distance = gsp_str_distance(name, opts[i].name);
        /* A prefix is always close: "--sub" suggests "--subprocesses". */
        size_t len = strlen(name);
        if (len >= 3 && strncmp(name, opts[i].name, len) == 0)
            distance = 1;
        if (distance < *best) {
            *best = distance;
            *out = opts[i].name;
        }
    }
}

static int unknown_long(struct walk *walk, struct gsp_sv name)
{
    struct gsp_parsed *parsed = walk->parsed;
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)(name.len < 60 ? name.len : 60), name.p);
    size_t best = DISTANCE_MAX;
    const char *match = NULL;
    if (parsed->command)
        nearest(parsed->command->opts, parsed->command->opt_count, text, &best, &match);
    nearest(gsp_global_opts, gsp_global_opt_count, text, &best, &match);
    if (match)
        snprintf(parsed->suggestion, sizeof(parsed->suggestion), "--%s", match);
    return gsp_err_set(walk->err, GSP_E_USAGE, 0, "unknown option '--%s'%s", text, walk->where);
}

static int wrong_choice(struct walk *walk, const struct gsp_opt *opt, const char *text)
{
    size_t best = DISTANCE_MAX;
    const char *match = NULL;
    for (size_t i = 0; opt->choice(i); i++) {
        size_t distance = gsp_str_distance(text, opt->choice(i));
        if (distance < best) {
            best = distance;
            match = opt->choice(i);
        }
    }
    if (match)
        snprintf(walk->parsed->suggestion, sizeof(walk->parsed->suggestion), "--%s=%s", opt->name,
                 match);
    else
        snprintf(walk->parsed->suggestion, sizeof(walk->parsed->suggestion), "--%s=help",
                 opt->name);
    return gsp_err_set(walk->err, GSP_E_USAGE, 0, "--%s does not accept '%s'", opt->name, text);
}

static int set_choice(struct walk *walk, const struct gsp_opt *opt, const char *text,
                      const char **value)
{
    if (strcmp(text, "help") == 0) {
        walk->parsed->list = opt;
        return GSP_OK;
    }
    for (size_t i = 0; opt->choice(i); i++) {
        if (strcmp(opt->choice(i), text) == 0) {
            *value = opt->choice(i);
            return GSP_OK;
        }
    }
    return wrong_choice(walk, opt, text);
}

static int add_value(struct walk *walk, const struct gsp_opt *opt, const char *text, void *at)
{
    struct gsp_opt_list *list = at;
    if (list->count == GSP_OPT_LIST_MAX)
        return gsp_err_set(walk->err, GSP_E_USAGE, 0, "--%s can be given at most %u times",
                           opt->name, GSP_OPT_LIST_MAX);
    list->at[list->count++] = text;
    return GSP_OK;
}

/* Prefixes the error of a number parser with the name of the option. */
static int name_option(struct walk *walk, const struct gsp_opt *opt, int rc)
{
    if (rc < 0 && walk->err) {
        char reason[sizeof(walk->err->msg)];
        snprintf(reason, sizeof(reason), "%s", walk->err->msg);
        gsp_err_fill(walk->err, rc, 0, "--%s: %.200s", opt->name, reason);
        if (opt->instead)
            snprintf(walk->parsed->suggestion, sizeof(walk->parsed->suggestion), "--%s",
                     opt->instead);
    }
    return rc;
}

/* Accepts hexadecimal pids too, as other profilers do. */
static int parse_pid(const char *text, int64_t *out, struct gsp_err *err)
{
    char *end = NULL;
    if (strncmp(text, "0x", 2) != 0)
        return gsp_parse_i64(text, 1, INT_MAX, out, err);
    const unsigned long long pid = strtoull(text, &end, 16);
    if (text[2] == '\0' || *end != '\0' || pid == 0 || pid > INT_MAX)
        return gsp_err_set(err, GSP_E_USAGE, 0, "'%.40s' is not a process ID", text);
    *out = (int64_t)pid;
    return GSP_OK;
}

static int set_value(struct walk *walk, const struct found *found, const char *text)
{
    const struct gsp_opt *opt = found->opt;
    char *at = found->base + opt->offset;
    int64_t number = 0;
    double real = 0;
    int rc = GSP_OK;
    switch (opt->kind) {
    case GSP_OPT_FLAG:
    case GSP_OPT_COUNT:
        break;
    case GSP_OPT_PID:
        rc = parse_pid(text, &number, walk->err);
        memcpy(at, &number, sizeof(number));
        break;
    case GSP_OPT_INT:
        rc = gsp_parse_i64(text, (int64_t)opt->min, (int64_t)opt->max, &number, walk->err);
        memcpy(at, &number, sizeof(number));
        break;
    case GSP_OPT_REAL:
        rc = gsp_parse_f64(text, opt->min, opt->max, &real, walk->err);
        memcpy(at, &real, sizeof(real));
        break;
    case GSP_OPT_DURATION:
        if (!opt->fallback && strcmp(text, UNLIMITED) == 0)
            break; /* same as not given */
        rc = gsp_parse_duration(text, &number, walk->err);
        if (rc == GSP_OK && number <= 0)
            rc = gsp_err_set(walk->err, GSP_E_USAGE, 0, "'%.60s' must be greater than zero", text);
        memcpy(at, &number, sizeof(number));
        break;
    case GSP_OPT_TEXT:
    case GSP_OPT_FILE:
        if (text[0] == '\0')
            return gsp_err_set(walk->err, GSP_E_USAGE, 0, "--%s needs a value", opt->name);
        memcpy(at, &text, sizeof(text));
        break;
    case GSP_OPT_CHOICE: {
        const char *value = text;
        rc = set_choice(walk, opt, text, &value);
        memcpy(at, &value, sizeof(value));
        return rc;
    }
    case GSP_OPT_LIST:
        return add_value(walk, opt, text, at);
    }
    return name_option(walk, opt, rc);
}

static bool is_flag(const struct gsp_opt *opt)
{
    return opt->kind == GSP_OPT_FLAG || opt->kind == GSP_OPT_COUNT;
}

static void set_flag(const struct found *found)
{
    char *at = found->base + found->opt->offset;
    if (found->opt->kind == GSP_OPT_COUNT) {
        int count = 0;
        memcpy(&count, at, sizeof(count));
        count++;
        memcpy(at, &count, sizeof(count));
        return;
    }
    const bool yes = true;
    memcpy(at, &yes, sizeof(yes));
}

/* Consumes the next word as a value; NULL at the end of the command line. */
static const char *next_word(struct walk *walk)
{
    return walk->i + 1 < walk->argc ? walk->argv[++walk->i] : NULL;
}

static int parse_long(struct walk *walk, const char *word)
{
    struct gsp_sv rest = gsp_sv_of(word + 2);
    const char *equals = strchr(word, '=');
    struct gsp_sv name = {rest.p, equals ? (size_t)(equals - rest.p) : rest.len};
    struct found found = {0};
    if (!lookup(walk, name, 0, &found)) {
        /* A SQL statement may begin with a comment. */
        if (!walk->parsed->command || !walk->parsed->command->takes_sql || !strpbrk(word, " \t\n"))
            return unknown_long(walk, name);
        walk->parsed->args[walk->parsed->arg_count++] = walk->argv[walk->i];
        return GSP_OK;
    }
    if (is_flag(found.opt)) {
        if (equals)
            return gsp_err_set(walk->err, GSP_E_USAGE, 0, "--%s does not take a value",
                               found.opt->name);
        set_flag(&found);
        return GSP_OK;
    }
    const char *text = equals ? equals + 1 : next_word(walk);
    if (!text)
        return gsp_err_set(walk->err, GSP_E_USAGE, 0, "--%s needs a value: %s", found.opt->name,
                           found.opt->arg);
    return set_value(walk, &found, text);
}

/* "-p 4242", "-p4242", "-tg", "-tgp4242". */
static int parse_letters(struct walk *walk, const char *word)
{
    for (const char *at = word + 1; *at; at++) {
        if (*at == 'h') { /* the only letter that differs from its long name */
            walk->parsed->globals.help = true;
            continue;
        }
        struct found found = {0};
        if (!lookup(walk, (struct gsp_sv){0}, *at, &found))
            return gsp_err_set(walk->err, GSP_E_USAGE, 0, "unknown option '-%c'%s",
                               *at > ' ' && *at < 0x7f ? *at : '?', walk->where);
        if (is_flag(found.opt)) {
            set_flag(&found);
            continue;
        }
        const char *text = at[1] ? at + 1 + (at[1] == '=') : next_word(walk);
        if (!text)
            return gsp_err_set(walk->err, GSP_E_USAGE, 0, "-%c needs a value: %s", *at,
                               found.opt->arg);
        return set_value(walk, &found, text);
    }
    return GSP_OK;
}

static int set_fallbacks(struct walk *walk, const struct gsp_opt *opts, size_t count, char *base)
{
    for (size_t i = 0; i < count; i++) {
        if (!opts[i].fallback)
            continue;
        int rc = set_value(walk, &(struct found){&opts[i], base}, opts[i].fallback);
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

static int unknown_command(struct walk *walk, const char *word)
{
    size_t best = DISTANCE_MAX;
    const struct gsp_command *match = NULL;
    for (size_t i = 0; i < gsp_command_count; i++) {
        const char *name = gsp_commands[i]->name;
        size_t len = strlen(word);
        bool starts = len >= 2 && strncmp(word, name, len) == 0;
        size_t distance = starts ? 1 : gsp_str_distance(word, name);
        if (!gsp_commands[i]->hidden && distance < best) {
            best = distance;
            match = gsp_commands[i];
        }
    }
    if (match)
        snprintf(walk->parsed->suggestion, sizeof(walk->parsed->suggestion), "gsprof %s",
                 gsp_cli__command_title(match));
    return gsp_err_set(walk->err, GSP_E_USAGE, 0, "unknown command '%.60s'", word);
}

/* Finds a command of two words: "mem record" is "mem-record". */
static const struct gsp_command *find_pair(struct walk *walk, const char *word)
{
    char name[64];
    if (walk->i + 1 >= walk->argc)
        return NULL;
    snprintf(name, sizeof(name), "%.30s-%.30s", word, walk->argv[walk->i + 1]);
    const struct gsp_command *command = gsp_cli__command_find(name);
    walk->i += command != NULL;
    return command;
}

static int begin_command(struct walk *walk, const char *word)
{
    const struct gsp_command *command = gsp_cli__command_find(word);
    if (!command)
        command = find_pair(walk, word);
    if (!command)
        return unknown_command(walk, word);
    walk->parsed->command = command;
    snprintf(walk->where, sizeof(walk->where), " of %s", gsp_cli__command_title(command));
    walk->parsed->opts = calloc(1, command->opts_size ? command->opts_size : 1);
    if (!walk->parsed->opts)
        return gsp_err_nomem(walk->err);
    return set_fallbacks(walk, command->opts, command->opt_count, walk->parsed->opts);
}

static void add_rest(struct walk *walk, int from)
{
    for (int i = from; i < walk->argc; i++)
        walk->parsed->args[walk->parsed->arg_count++] = walk->argv[i];
    walk->i = walk->argc;
}

static bool is_number(const char *word)
{
    return word[0] && word[strspn(word, "0123456789")] == '\0';
}

/* "gsprof dump 4242" means "gsprof dump --pid 4242" if the command takes no other arguments. */
static const struct gsp_opt *pid_option(const struct gsp_command *command)
{
    if (!command->takes_program && command->args_max > 0)
        return NULL;
    const struct gsp_opt *opt = find_long(command->opts, command->opt_count, gsp_sv_of("pid"));
    return opt && opt->kind == GSP_OPT_PID ? opt : NULL;
}

static int set_pid(struct walk *walk, const struct gsp_opt *opt, const char *word)
{
    int64_t before = 0;
    memcpy(&before, (char *)walk->parsed->opts + opt->offset, sizeof(before));
    if (before)
        return gsp_err_set(walk->err, GSP_E_USAGE, 0,
                           "%s takes one process at a time, not both %d and %.20s",
                           gsp_cli__command_title(walk->parsed->command), (int)before, word);
    return set_value(walk, &(struct found){opt, walk->parsed->opts}, word);
}

static int parse_word(struct walk *walk)
{
    struct gsp_parsed *parsed = walk->parsed;
    char *word = walk->argv[walk->i];
    if (strcmp(word, "--") == 0) {
        if (!parsed->command)
            return gsp_err_set(walk->err, GSP_E_USAGE, 0, "no command before '--'");
        add_rest(walk, walk->i + 1);
        return GSP_OK;
    }
    if (word[0] == '-' && word[1] == '-')
        return parse_long(walk, word);
    if (word[0] == '-' && word[1] != '\0')
        return parse_letters(walk, word);
    if (!parsed->command)
        return begin_command(walk, word);
    const struct gsp_opt *pid = is_number(word) ? pid_option(parsed->command) : NULL;
    if (pid)
        return set_pid(walk, pid, word);
    if (parsed->command->takes_program) {
        add_rest(walk, walk->i);
        return GSP_OK;
    }
    parsed->args[parsed->arg_count++] = word;
    return GSP_OK;
}

static int check_args(struct walk *walk)
{
    struct gsp_parsed *parsed = walk->parsed;
    const struct gsp_command *command = parsed->command;
    if (!command || command->takes_program || parsed->globals.help || parsed->globals.help_long ||
        parsed->list)
        return GSP_OK;
    if (parsed->arg_count > command->args_max) {
        const char *extra = parsed->args[command->args_max];
        return gsp_err_set(walk->err, GSP_E_USAGE, 0, "unexpected argument '%.60s'", extra);
    }
    if (parsed->arg_count < command->args_min)
        return gsp_err_set(walk->err, GSP_E_USAGE, 0, "missing argument; usage: gsprof %s %s",
                           gsp_cli__command_title(command), command->synopsis);
    return GSP_OK;
}

const struct gsp_command *gsp_cli__command_find(const char *name)
{
    for (size_t i = 0; i < gsp_command_count; i++)
        if (strcmp(gsp_commands[i]->name, name) == 0)
            return gsp_commands[i];
    return NULL;
}

const char *gsp_cli__command_title(const struct gsp_command *command)
{
    return command->title ? command->title : command->name;
}

/* Turns "gsprof 4242 query" into "gsprof query 4242". */
static void order_words(int argc, char **argv)
{
    if (argc < 3 || gsp_cli__command_find(argv[1]) || !gsp_source_endpoint_is_plausible(argv[1]))
        return;
    const struct gsp_command *command = gsp_cli__command_find(argv[2]);
    if (!command || !command->takes_endpoint)
        return;
    char *endpoint = argv[1];
    argv[1] = argv[2];
    argv[2] = endpoint;
}

int gsp_cli__parse(int argc, char **argv, struct gsp_parsed *parsed, struct gsp_err *err)
{
    *parsed = (struct gsp_parsed){.argv = argv};
    order_words(argc, argv);
    parsed->args = calloc((size_t)argc + 1, sizeof(*parsed->args));
    if (!parsed->args)
        return gsp_err_nomem(err);
    struct walk walk = {.argc = argc, .argv = argv, .i = 1, .parsed = parsed, .err = err};
    int rc = set_fallbacks(&walk, gsp_global_opts, gsp_global_opt_count, (char *)&parsed->globals);
    for (; rc == GSP_OK && walk.i < argc; walk.i++)
        rc = parse_word(&walk);
    return rc == GSP_OK ? check_args(&walk) : rc;
}

void gsp_cli__parsed_free(struct gsp_parsed *parsed)
{
    if (!parsed)
        return;
    free(parsed->opts);
    free(parsed->args);
    *parsed = (struct gsp_parsed){0};
}
