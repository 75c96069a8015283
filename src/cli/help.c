/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Column at which the text of an option starts. */
#define OPTION_COLUMN   28U
#define OVERVIEW_COLUMN 16U
#define WIDTH_MAX       100U
#define EXAMPLES_SHORT  3U

static size_t width_of(const struct gsp_term *term)
{
    return term->width < WIDTH_MAX ? term->width : WIDTH_MAX;
}

static void put_head(const struct gsp_term *term, const char *text, struct gsp_buf *out)
{
    gsp_buf_printf(out, "%s%s%s\n", gsp_cli__term_bold(term), text, gsp_cli__term_off(term));
}

/* "-p, --pid PID", without colour: the caller counts columns. */
static void put_names(const struct gsp_opt *opt, struct gsp_buf *out)
{
    if (opt->letter)
        gsp_buf_printf(out, "-%c, --%s", opt->letter, opt->name);
    else
        gsp_buf_printf(out, "    --%s", opt->name);
    if (opt->arg)
        gsp_buf_printf(out, " %s", opt->arg);
}

/* Appends the help text, with the default at the end of its first sentence. */
static void put_text(const struct gsp_opt *opt, const char *quote, struct gsp_buf *out)
{
    const char *value = opt->default_text ? opt->default_text : opt->fallback;
    const char *stop = strstr(opt->help, ". ");
    const size_t len = strlen(opt->help);
    size_t first = stop ? (size_t)(stop - opt->help) : len - (len > 0 && opt->help[len - 1] == '.');
    gsp_buf_put(out, opt->help, first);
    if (value && opt->default_text)
        gsp_buf_printf(out, " (default: %s)", value);
    else if (value)
        gsp_buf_printf(out, " (default: %s%s%s)", quote, value, quote);
    gsp_buf_puts(out, opt->help + first);
}

static void put_option(const struct gsp_opt *opt, size_t width, struct gsp_buf *out)
{
    size_t start = out->len;
    gsp_buf_puts(out, "  ");
    put_names(opt, out);
    size_t used = out->len - start;
    if (used + 2 > OPTION_COLUMN) {
        gsp_buf_putc(out, '\n');
        used = 0;
    }
    gsp_buf_printf(out, "%*s", (int)(OPTION_COLUMN - used), "");
    gsp_auto_buf text = {0};
    put_text(opt, "", &text);
    const char *whole = gsp_buf_cstr(&text);
    if (whole)
        gsp_cli__term_wrap(out, whole, OPTION_COLUMN, width);
    gsp_buf_putc(out, '\n');
}

static void put_options(const struct gsp_opt *opts, size_t count, bool whole, size_t width,
                        struct gsp_buf *out)
{
    for (size_t i = 0; i < count; i++)
        if (whole || !opts[i].advanced)
            put_option(&opts[i], width, out);
}

static void put_usage(const struct gsp_command *command, struct gsp_buf *out)
{
    gsp_buf_printf(out, "usage: gsprof %s %s\n", gsp_cli__command_title(command),
                   command->synopsis);
}

/* The names of the commands that the overview does not describe. */
static void put_lesser(const struct gsp_term *term, struct gsp_buf *out)
{
    gsp_auto_buf names = {0};
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (gsp_commands[i]->lesser && !gsp_commands[i]->hidden)
            gsp_buf_printf(&names, "%s%s", names.len ? ", " : "",
                           gsp_cli__command_title(gsp_commands[i]));
    }
    const char *text = gsp_buf_cstr(&names);
    out->failed |= !text;
    gsp_buf_puts(out, "  others        ");
    gsp_cli__term_wrap(out, text ? text : "", OVERVIEW_COLUMN, width_of(term));
    gsp_buf_putc(out, '\n');
}

void gsp_cli__help_overview(const struct gsp_term *term, struct gsp_buf *out)
{
    gsp_buf_puts(out, "gsprof " GSP_VERSION ": find where Python programs spend time and memory\n"
                      "usage: gsprof COMMAND [OPTIONS]\n\n");
    put_head(term, "Commands", out);
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (!gsp_commands[i]->hidden && !gsp_commands[i]->lesser)
            gsp_buf_printf(out, "  %-13s %s\n", gsp_cli__command_title(gsp_commands[i]),
                           gsp_commands[i]->summary);
    }
    put_lesser(term, out);
    gsp_buf_putc(out, '\n');
    put_head(term, "Getting started", out);
    gsp_buf_puts(
        out, "  gsprof run -- python3 train.py    profile a program and print a verdict\n"
             "  gsprof dump --pid 4242            print the current stacks of a process\n"
             "  gsprof doctor                     check what works on this machine\n\n"
             "See 'gsprof COMMAND -h', or --help for all options; 'gsprof help' lists topics.\n");
}

void gsp_cli__help_command(const struct gsp_command *command, bool whole,
                           const struct gsp_term *term, struct gsp_buf *out)
{
    size_t width = width_of(term);
    gsp_buf_printf(out, "gsprof %s: %s\n\n", gsp_cli__command_title(command), command->summary);
    put_usage(command, out);
    if (whole) {
        gsp_buf_putc(out, '\n');
        gsp_cli__term_wrap(out, command->about, 0, width);
        gsp_buf_putc(out, '\n');
    }
    if (command->opt_count) {
        gsp_buf_putc(out, '\n');
        put_head(term, "Options", out);
        put_options(command->opts, command->opt_count, whole, width, out);
    }
    if (whole) {
        gsp_buf_putc(out, '\n');
        put_head(term, "Global options", out);
        put_options(gsp_global_opts, gsp_global_opt_count, true, width, out);
    }
    gsp_buf_putc(out, '\n');
    put_head(term, "Examples", out);
    for (size_t i = 0; i < command->example_count && (whole || i < EXAMPLES_SHORT); i++) {
        gsp_buf_printf(out, "  %s\n      ", command->examples[i].line);
        gsp_cli__term_wrap(out, command->examples[i].what, 6, width);
        gsp_buf_putc(out, '\n');
    }
    if (!whole)
        gsp_buf_printf(out, "\nSee 'gsprof %s --help' for all options.\n",
                       gsp_cli__command_title(command));
}

/* Escapes '|', which would end the cell. */
static void put_cell(const char *text, struct gsp_buf *out)
{
    for (; *text; text++) {
        if (*text == '|')
            gsp_buf_putc(out, '\\');
        gsp_buf_putc(out, *text);
    }
}

static void put_table(const struct gsp_opt *opts, size_t count, struct gsp_buf *out)
{
    gsp_buf_puts(out, "| option | description |\n|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        gsp_auto_buf names = {0};
        put_names(&opts[i], &names);
        const char *text = gsp_buf_cstr(&names);
        gsp_buf_printf(out, "| `%s` | ", text ? text + strspn(text, " ") : opts[i].name);
        gsp_auto_buf help = {0};
        put_text(&opts[i], "`", &help);
        put_cell(gsp_buf_cstr(&help) ? gsp_buf_cstr(&help) : "", out);
        if (opts[i].choice && opts[i].choice(0)) {
            gsp_buf_puts(out, " Values:");
            for (size_t k = 0; opts[i].choice(k); k++)
                gsp_buf_printf(out, "%s `%s`", k ? "," : "", opts[i].choice(k));
            gsp_buf_putc(out, '.');
        }
        gsp_buf_puts(out, " |\n");
    }
}

void gsp_cli__help_markdown(const struct gsp_command *command, struct gsp_buf *out)
{
    gsp_buf_printf(out, "# gsprof %s\n\n%s.\n\n", gsp_cli__command_title(command),
                   command->summary);
    gsp_buf_printf(out, "```\ngsprof %s %s\n```\n\n", gsp_cli__command_title(command),
                   command->synopsis);
    for (const char *at = command->about; *at; at++) {
        gsp_buf_putc(out, *at);
        if (*at == '\n')
            gsp_buf_putc(out, '\n');
    }
    gsp_buf_puts(out, "\n");
    if (command->opt_count) {
        gsp_buf_puts(out, "\n## Options\n\n");
        put_table(command->opts, command->opt_count, out);
    }
    gsp_buf_puts(out, "\n## Global options\n\n");
    put_table(gsp_global_opts, gsp_global_opt_count, out);
    gsp_buf_puts(out, "\n## Examples\n");
    for (size_t i = 0; i < command->example_count; i++)
        gsp_buf_printf(out, "\n%s:\n\n```sh\n%s\n```\n", command->examples[i].what,
                       command->examples[i].line);
}

void gsp_cli__help_markdown_index(struct gsp_buf *out)
{
    gsp_buf_puts(out, "# gsprof commands\n\n"
                      "These pages are generated from the program's option tables by "
                      "`gsprof docs docs/cli`. Do not edit them.\n\n"
                      "| command | description |\n|---|---|\n");
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        if (!command->hidden)
            gsp_buf_printf(out, "| [%s](gsprof-%s.md) | %s |\n", gsp_cli__command_title(command),
                           command->name, command->summary);
    }
}
