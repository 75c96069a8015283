/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Where the text of an option starts. */
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
    gsp_buf_printf(out, "%s%s%s\n", gsp_term_bold(term), text, gsp_term_off(term));
}

/* "  -p, --pid PID", as text alone: the columns are counted on it. */
static void put_names(const struct gsp_opt *opt, struct gsp_buf *out)
{
    if (opt->letter)
        gsp_buf_printf(out, "-%c, --%s", opt->letter, opt->name);
    else
        gsp_buf_printf(out, "    --%s", opt->name);
    if (opt->arg)
        gsp_buf_printf(out, " %s", opt->arg);
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
    gsp_buf_puts(&text, opt->help);
    if (opt->fallback)
        gsp_buf_printf(&text, " [%s]", opt->fallback);
    const char *whole = gsp_buf_cstr(&text);
    if (whole)
        gsp_term_wrap(out, whole, OPTION_COLUMN, width);
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
    gsp_buf_printf(out, "usage: gsprof %s %s\n", gsp_command_spoken(command), command->synopsis);
}

/* The names of the commands that have no line of their own. */
static void put_lesser(const struct gsp_term *term, struct gsp_buf *out)
{
    gsp_auto_buf names = {0};
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (gsp_commands[i]->lesser && !gsp_commands[i]->hidden)
            gsp_buf_printf(&names, "%s%s", names.len ? ", " : "",
                           gsp_command_spoken(gsp_commands[i]));
    }
    const char *text = gsp_buf_cstr(&names);
    gsp_buf_puts(out, "  and           ");
    gsp_term_wrap(out, text ? text : "", OVERVIEW_COLUMN, width_of(term));
    gsp_buf_putc(out, '\n');
}

void gsp_help_overview(const struct gsp_term *term, struct gsp_buf *out)
{
    gsp_buf_puts(out, "gsprof " GSP_VERSION ": where does the time of a Python program go?\n"
                      "usage: gsprof COMMAND [OPTIONS]\n\n");
    put_head(term, "Commands", out);
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (!gsp_commands[i]->hidden && !gsp_commands[i]->lesser)
            gsp_buf_printf(out, "  %-13s %s\n", gsp_command_spoken(gsp_commands[i]),
                           gsp_commands[i]->summary);
    }
    put_lesser(term, out);
    gsp_buf_putc(out, '\n');
    put_head(term, "First steps", out);
    gsp_buf_puts(out,
                 "  gsprof run -- python3 train.py        run a program with everything on\n"
                 "  gsprof dump --pid 4242                what a process does right now\n"
                 "  gsprof doctor                         what works on this machine\n\n"
                 "  gsprof COMMAND -h is short, --help is everything; gsprof help lists topics.\n");
}

void gsp_help_command(const struct gsp_command *command, bool whole, const struct gsp_term *term,
                      struct gsp_buf *out)
{
    size_t width = width_of(term);
    gsp_buf_printf(out, "gsprof %s: %s\n\n", gsp_command_spoken(command), command->summary);
    put_usage(command, out);
    if (whole) {
        gsp_buf_putc(out, '\n');
        gsp_term_wrap(out, command->about, 0, width);
        gsp_buf_putc(out, '\n');
    }
    if (command->opt_count) {
        gsp_buf_putc(out, '\n');
        put_head(term, "Options", out);
        put_options(command->opts, command->opt_count, whole, width, out);
    }
    if (whole) {
        gsp_buf_putc(out, '\n');
        put_head(term, "Options of every command", out);
        put_options(gsp_global_opts, gsp_global_opt_count, true, width, out);
    }
    gsp_buf_putc(out, '\n');
    put_head(term, "Examples", out);
    for (size_t i = 0; i < command->example_count && (whole || i < EXAMPLES_SHORT); i++) {
        gsp_buf_printf(out, "  %s\n      ", command->examples[i].line);
        gsp_term_wrap(out, command->examples[i].what, 6, width);
        gsp_buf_putc(out, '\n');
    }
    if (!whole)
        gsp_buf_printf(out, "\n  gsprof %s --help tells the rest.\n", gsp_command_spoken(command));
}

/* A cell of a table must not end it. */
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
    gsp_buf_puts(out, "| option | meaning |\n|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        gsp_auto_buf names = {0};
        put_names(&opts[i], &names);
        const char *text = gsp_buf_cstr(&names);
        gsp_buf_printf(out, "| `%s` | ", text ? text + strspn(text, " ") : opts[i].name);
        put_cell(opts[i].help, out);
        if (opts[i].fallback)
            gsp_buf_printf(out, " Default: `%s`.", opts[i].fallback);
        if (opts[i].choice && opts[i].choice(0)) {
            gsp_buf_puts(out, " One of");
            for (size_t k = 0; opts[i].choice(k); k++)
                gsp_buf_printf(out, "%s `%s`", k ? "," : "", opts[i].choice(k));
            gsp_buf_putc(out, '.');
        }
        gsp_buf_puts(out, " |\n");
    }
}

void gsp_help_markdown(const struct gsp_command *command, struct gsp_buf *out)
{
    gsp_buf_printf(out, "# gsprof %s\n\n%s.\n\n", gsp_command_spoken(command), command->summary);
    gsp_buf_printf(out, "```\ngsprof %s %s\n```\n\n", gsp_command_spoken(command),
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
    gsp_buf_puts(out, "\n## Options of every command\n\n");
    put_table(gsp_global_opts, gsp_global_opt_count, out);
    gsp_buf_puts(out, "\n## Examples\n");
    for (size_t i = 0; i < command->example_count; i++)
        gsp_buf_printf(out, "\n%s:\n\n```sh\n%s\n```\n", command->examples[i].what,
                       command->examples[i].line);
}

void gsp_help_markdown_index(struct gsp_buf *out)
{
    gsp_buf_puts(out, "# The commands of gsprof\n\n"
                      "These pages are made from the option tables of the program: "
                      "`gsprof docs docs/cli` writes them again.\n\n"
                      "| command | job |\n|---|---|\n");
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        if (!command->hidden)
            gsp_buf_printf(out, "| [%s](gsprof-%s.md) | %s |\n", gsp_command_spoken(command),
                           command->name, command->summary);
    }
}
