/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"
#include "tap.h"

#define WORDS_MAX 32

/* A command line split at blanks that are not between single quotes; the words live as long as
 * the struct. */
struct line {
    char text[512];
    char *argv[WORDS_MAX + 1];
    int argc;
    struct gsp_parsed parsed;
    struct gsp_err err;
};

static int parse(struct line *line, const char *text)
{
    *line = (struct line){0};
    snprintf(line->text, sizeof(line->text), "%s", text);
    char *rest = line->text + strspn(line->text, " ");
    while (*rest && line->argc < WORDS_MAX) {
        bool quoted = *rest == '\'';
        line->argv[line->argc++] = rest += quoted;
        rest += strcspn(rest, quoted ? "'" : " ");
        if (*rest)
            *rest++ = '\0';
        rest += strspn(rest, " ");
    }
    return gsp_cli__parse(line->argc, line->argv, &line->parsed, &line->err);
}

/* The value of an option, by its name: the structs of the commands are their own. */
static const void *value(const struct line *line, const char *name)
{
    const struct gsp_command *command = line->parsed.command;
    for (size_t i = 0; command && i < command->opt_count; i++)
        if (strcmp(command->opts[i].name, name) == 0)
            return (const char *)line->parsed.opts + command->opts[i].offset;
    tap_require(false);
    return NULL;
}

static int64_t number(const struct line *line, const char *name)
{
    int64_t out = 0;
    memcpy(&out, value(line, name), sizeof(out));
    return out;
}

static double real(const struct line *line, const char *name)
{
    double out = 0;
    memcpy(&out, value(line, name), sizeof(out));
    return out;
}

static bool flag(const struct line *line, const char *name)
{
    bool out = false;
    memcpy(&out, value(line, name), sizeof(out));
    return out;
}

static const char *text(const struct line *line, const char *name)
{
    const char *out = NULL;
    memcpy(&out, value(line, name), sizeof(out));
    return out;
}

TAP_TEST(syntax_of_values)
{
    static const char *const lines[] = {
        "gsprof record -p 4242",    "gsprof record -p4242",     "gsprof record -p=4242",
        "gsprof record --pid 4242", "gsprof record --pid=4242", "gsprof -v record --pid=4242",
        "gsprof record -gtp4242",
    };
    for (size_t i = 0; i < GSP_COUNT(lines); i++) {
        struct line line;
        tap_eq_int(parse(&line, lines[i]), GSP_OK);
        tap_eq_int(number(&line, "pid"), 4242);
        gsp_cli__parsed_free(&line.parsed);
    }
}

TAP_TEST(defaults)
{
    struct line line;
    tap_eq_int(parse(&line, "gsprof record -p 1"), GSP_OK);
    tap_check(real(&line, "rate") == 100.0);
    tap_eq_int(number(&line, "duration"), 0);
    tap_check(!flag(&line, "gil"));
    tap_check(text(&line, "output") == NULL);
    tap_eq_str(line.parsed.globals.color, "auto");
    gsp_cli__parsed_free(&line.parsed);
}

TAP_TEST(all_options_of_record)
{
    struct line line;
    tap_eq_int(parse(&line, "gsprof record -p 7 -o a.svg -f svg -r 250.5 -d 1m -s -t -g -i -F "
                            "--nolineno --full-filenames --blocking --jitter --force -q -vv"),
               GSP_OK);
    tap_check(real(&line, "rate") == 250.5);
    tap_eq_int(number(&line, "duration"), 60000000000LL);
    tap_eq_str(text(&line, "output"), "a.svg");
    tap_eq_str(text(&line, "format"), "svg");
    static const char *const flags[] = {"subprocesses", "threads",  "gil",      "idle",
                                        "function",     "nolineno", "blocking", "full-filenames",
                                        "jitter",       "force"};
    for (size_t i = 0; i < GSP_COUNT(flags); i++)
        tap_check(flag(&line, flags[i]));
    tap_check(line.parsed.globals.quiet);
    tap_eq_int(line.parsed.globals.verbose, 2);
    gsp_cli__parsed_free(&line.parsed);
}

TAP_TEST(arguments_of_the_program)
{
    static const char *const lines[] = {
        "gsprof record -s -- python3 train.py -p 5 --help",
        "gsprof record -s python3 train.py -p 5 --help",
    };
    for (size_t i = 0; i < GSP_COUNT(lines); i++) {
        struct line line;
        tap_eq_int(parse(&line, lines[i]), GSP_OK);
        tap_check(flag(&line, "subprocesses"));
        tap_eq_int(number(&line, "pid"), 0);
        tap_eq_int(line.parsed.arg_count, 5);
        tap_eq_str(line.parsed.args[0], "python3");
        tap_eq_str(line.parsed.args[4], "--help");
        tap_check(line.parsed.args[5] == NULL);
        tap_check(!line.parsed.globals.help_long);
        gsp_cli__parsed_free(&line.parsed);
    }
}

TAP_TEST(a_number_is_a_process)
{
    static const char *const lines[] = {
        "gsprof record 4242 -o a.svg", "gsprof top 4242",       "gsprof dump -l 4242",
        "gsprof mem record 4242 -d 5", "gsprof dump -p 0x1092", "gsprof mem-record -s 4242",
    };
    struct line line;
    for (size_t i = 0; i < GSP_COUNT(lines); i++) {
        if (!tap_eq_int(parse(&line, lines[i]), GSP_OK))
            printf("#   %s: %s\n", lines[i], line.err.msg);
        tap_eq_int(number(&line, "pid"), 4242);
        tap_eq_int(line.parsed.arg_count, 0);
        gsp_cli__parsed_free(&line.parsed);
    }
    /* A program with such a name follows "--"; the command itself rejects both at once. */
    tap_eq_int(parse(&line, "gsprof record -- 4242"), GSP_OK);
    tap_eq_int(number(&line, "pid"), 0);
    tap_eq_str(line.parsed.args[0], "4242");
    gsp_cli__parsed_free(&line.parsed);
    tap_eq_int(parse(&line, "gsprof record 4242 -- python3 7"), GSP_OK);
    tap_eq_int(number(&line, "pid"), 4242);
    tap_eq_int(line.parsed.arg_count, 2);
    gsp_cli__parsed_free(&line.parsed);
    tap_eq_int(parse(&line, "gsprof run 4242"), GSP_OK);
    tap_eq_str(line.parsed.args[0], "4242");
    gsp_cli__parsed_free(&line.parsed);
}

/* Command lines in the style of py-spy. */
TAP_TEST(options_of_other_profilers)
{
    static const char *const lines[] = {
        "gsprof record -p 1 -o a -f raw -d unlimited -r 50 -s -F --nolineno -t -g -i -n",
        "gsprof record --nonblocking --full-filenames -f flamegraph -o a.svg -p 1",
        "gsprof record -f speedscope -o a -- python3 a.py",
        "gsprof record -f chrometrace -o a python3 a.py",
        "gsprof top --nonblocking -p 1 -r 20 -s --full-filenames -g -i --delay 2.0",
        "gsprof dump -p 1 -ll -j -s -n --nonblocking --full-filenames",
        "gsprof dump -c core.1 -j",
    };
    for (size_t i = 0; i < GSP_COUNT(lines); i++) {
        struct line line;
        if (!tap_eq_int(parse(&line, lines[i]), GSP_OK))
            printf("#   %s: %s\n", lines[i], line.err.msg);
        gsp_cli__parsed_free(&line.parsed);
    }
}

TAP_TEST(dashes_end_options)
{
    struct line line;
    tap_eq_int(parse(&line, "gsprof report -- -odd-name.gsp"), GSP_OK);
    tap_eq_str(line.parsed.args[0], "-odd-name.gsp");
    gsp_cli__parsed_free(&line.parsed);
    tap_eq_int(parse(&line, "gsprof report -"), GSP_OK);
    tap_eq_str(line.parsed.args[0], "-");
    gsp_cli__parsed_free(&line.parsed);
}

TAP_TEST(invalid_command_lines)
{
    static const struct {
        const char *line;
        const char *suggestion;
    } cases[] = {
        {"gsprof recrod -p 1", "gsprof record"},
        {"gsprof rec", "gsprof record"},
        {"gsprof xyzzy", ""},
        {"gsprof record --duraton=3", "--duration"},
        {"gsprof record --sub", "--subprocesses"},
        {"gsprof record --utterly-unknown", ""},
        {"gsprof record -Z", ""},
        {"gsprof record -p", ""},
        {"gsprof record --pid", ""},
        {"gsprof record --pid=", ""},
        {"gsprof record --pid=0", ""},
        {"gsprof record --pid=-1", ""},
        {"gsprof record --pid=1x", ""},
        {"gsprof record --pid=99999999999999999999", ""},
        {"gsprof record -r 0", ""},
        {"gsprof record -r 1e9", ""},
        {"gsprof record -r nan", ""},
        {"gsprof record -d soon", ""},
        {"gsprof record -d 0", ""},
        {"gsprof record -d -1", ""},
        {"gsprof record -f svgg", "--format=svg"},
        {"gsprof record -f nonsense", "--format=help"},
        {"gsprof record --output=", ""},
        {"gsprof record --gil=yes", ""},
        {"gsprof --color=sometimes", "--color=help"},
        {"gsprof dump 4242 4243", ""},
        {"gsprof record -p 4242 4243", ""},
        {"gsprof record 0", ""},
        {"gsprof record -p 0x", ""},
        {"gsprof record -p 0x10000000000", ""},
        {"gsprof inject 4242 4243", ""},
        {"gsprof top -n --pid 4242", "--native"},
        {"gsprof inject --timeout unlimited 1", ""},
        {"gsprof report a b c", ""},
        {"gsprof compare a", ""},
        {"gsprof completions", ""},
        {"gsprof -- record", ""},
    };
    for (size_t i = 0; i < GSP_COUNT(cases); i++) {
        struct line line;
        tap_eq_int(parse(&line, cases[i].line), GSP_E_USAGE);
        tap_check(line.err.msg[0] != '\0');
        if (!tap_eq_str(line.parsed.suggestion, cases[i].suggestion))
            printf("#   of %s\n", cases[i].line);
        gsp_cli__parsed_free(&line.parsed);
    }
}

TAP_TEST(errors_name_the_option)
{
    struct line line;
    tap_eq_int(parse(&line, "gsprof record --rate 0"), GSP_E_USAGE);
    tap_check(strncmp(line.err.msg, "--rate: ", 8) == 0);
    gsp_cli__parsed_free(&line.parsed);
}

TAP_TEST(help_options)
{
    struct line line;
    tap_eq_int(parse(&line, "gsprof record -h"), GSP_OK);
    tap_check(line.parsed.globals.help && !line.parsed.globals.help_long);
    gsp_cli__parsed_free(&line.parsed);
    /* Even if an argument is missing. */
    tap_eq_int(parse(&line, "gsprof completions --help"), GSP_OK);
    tap_check(line.parsed.globals.help_long);
    gsp_cli__parsed_free(&line.parsed);
    tap_eq_int(parse(&line, "gsprof --version"), GSP_OK);
    tap_check(line.parsed.globals.version && !line.parsed.command);
    gsp_cli__parsed_free(&line.parsed);
    tap_eq_int(parse(&line, "gsprof record --format=help"), GSP_OK);
    tap_require(line.parsed.list != NULL);
    tap_eq_str(line.parsed.list->name, "format");
    gsp_cli__parsed_free(&line.parsed);
}

TAP_TEST(every_example_parses)
{
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        tap_check(command->example_count >= 3);
        for (size_t k = 0; k < command->example_count; k++) {
            struct line line;
            const char *example = command->examples[k].line;
            if (strncmp(example, "sudo ", 5) == 0)
                example += 5;
            tap_check(strncmp(example, "gsprof ", 7) == 0);
            if (!tap_eq_int(parse(&line, example), GSP_OK))
                printf("#   %s: %s\n", example, line.err.msg);
            tap_check(line.parsed.command == command);
            tap_check(strlen(command->examples[k].line) <= 78);
            gsp_cli__parsed_free(&line.parsed);
        }
    }
}

/* A long name means one thing and has one letter, wherever it is; none where another option has
 * that letter. */
static void check_same(const struct gsp_opt *a, const struct gsp_opt *b)
{
    if (strcmp(a->name, b->name) != 0)
        return;
    /* One process, or several: the words are the same. */
    if (a->kind != GSP_OPT_LIST && b->kind != GSP_OPT_LIST)
        tap_check(a->kind == b->kind);
    if (a->letter && b->letter)
        tap_eq_int(a->letter, b->letter);
}

TAP_TEST(options_mean_the_same_everywhere)
{
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *a = gsp_commands[i];
        for (size_t k = 0; k < gsp_command_count; k++) {
            const struct gsp_command *b = gsp_commands[k];
            for (size_t x = 0; x < a->opt_count; x++)
                for (size_t y = 0; y < b->opt_count; y++)
                    check_same(&a->opts[x], &b->opts[y]);
        }
    }
}

TAP_TEST(an_endpoint_may_come_first)
{
    struct line line;
    tap_eq_int(parse(&line, "gsprof 4242 query 'SELECT 1' -f csv"), GSP_OK);
    tap_require(line.parsed.command != NULL);
    tap_eq_str(line.parsed.command->name, "query");
    tap_eq_str(line.parsed.args[0], "4242");
    tap_eq_str(line.parsed.args[1], "SELECT 1");
    tap_eq_str(line.argv[1], "query");
    gsp_cli__parsed_free(&line.parsed);
    /* Only for commands that take an endpoint, and only for words that can be one. */
    tap_eq_int(parse(&line, "gsprof 4242 doctor"), GSP_E_USAGE);
    gsp_cli__parsed_free(&line.parsed);
    tap_eq_int(parse(&line, "gsprof qurey tables"), GSP_E_USAGE);
    gsp_cli__parsed_free(&line.parsed);
}

TAP_TEST(option_tables_are_valid)
{
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        tap_require(command->name && command->summary && command->synopsis && command->about);
        tap_check(command->run);
        for (size_t k = 0; k < command->opt_count; k++) {
            const struct gsp_opt *opt = &command->opts[k];
            bool takes_value = opt->kind != GSP_OPT_FLAG && opt->kind != GSP_OPT_COUNT;
            tap_check(takes_value == (opt->arg != NULL));
            tap_check((opt->kind == GSP_OPT_CHOICE) == (opt->choice != NULL));
            tap_check(opt->offset < command->opts_size);
            tap_require(opt->help != NULL);
            tap_check(opt->help[strlen(opt->help) - 1] == '.');
            for (size_t n = 0; n < k; n++) {
                tap_check(strcmp(command->opts[n].name, opt->name) != 0);
                tap_check(!opt->letter || command->opts[n].letter != opt->letter);
            }
            for (size_t n = 0; n < gsp_global_opt_count; n++)
                tap_check(!opt->letter || gsp_global_opts[n].letter != opt->letter);
        }
    }
}

TAP_MAIN()
