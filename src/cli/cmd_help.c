/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/help.h"
#include "cli/hint.h"
#include "cli/schema_page.h"

static const struct gsp_example HELP_EXAMPLES[] = {
    {"gsprof help permissions", "Which permissions gsprof needs and how to grant them"},
    {"gsprof help formats", "List the file formats that gsprof reads and writes"},
    {"gsprof help record", "Same as gsprof record --help"},
};

static const struct gsp_example COMPLETIONS_EXAMPLES[] = {
    {"gsprof completions bash", "In ~/.bashrc: source <(gsprof completions bash)"},
    {"gsprof completions zsh", "Save as _gsprof in a directory of $fpath"},
    {"gsprof completions fish", "Save as ~/.config/fish/completions/gsprof.fish"},
};

static const struct gsp_example DOCS_EXAMPLES[] = {
    {"gsprof docs docs/cli", "Regenerate the pages"},
    {"gsprof docs --check docs/cli", "Fail if a page is out of date"},
    {"gsprof docs /tmp/pages", "Write the pages to another folder"},
};

/* Topics first, then commands. */
static const char *help_choice(size_t i)
{
    size_t topics = 0;
    while (gsp_cli__help_topic_at(topics))
        topics++;
    if (i < topics)
        return gsp_cli__help_topic_at(i);
    for (size_t k = 0; k < gsp_command_count; k++)
        if (!gsp_commands[k]->hidden && topics++ == i)
            return gsp_commands[k]->name;
    return NULL;
}

/* Reports an unknown name, suggests the closest choice and lists all of them. */
static int unknown(const struct gsp_parsed *parsed, const char *(*choice)(size_t i),
                   const char *what)
{
    struct gsp_parsed copy = *parsed;
    const char *name = parsed->args[0];
    size_t best = 4;
    for (size_t i = 0; choice(i); i++) {
        size_t distance = gsp_str_distance(name, choice(i));
        if (distance < best) {
            best = distance;
            snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof %s %s",
                     parsed->command->name, choice(i));
        }
    }
    gsp_auto_buf all = {0};
    for (size_t i = 0; choice(i); i++)
        gsp_buf_printf(&all, "%s%s", i ? ", " : "", choice(i));
    const char *list = gsp_buf_cstr(&all);
    return gsp_cli__misuse(&copy, "unknown %s '%.40s'; available: %s", what, name,
                           list ? list : "");
}

static int print_text(const struct gsp_parsed *parsed, const struct gsp_buf *text)
{
    struct gsp_err err = {0};
    int rc = text->failed ? gsp_err_nomem(&err)
                          : gsp_fd_write_text(STDOUT_FILENO, gsp_buf_sv(text), true, &err);
    if (rc < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    return 0;
}

static int run_help(const struct gsp_parsed *parsed)
{
    struct gsp_term term;
    gsp_auto_buf text = {0};
    gsp_cli__term_init(&term, STDOUT_FILENO, parsed->globals.color);
    const char *name = parsed->args[0];
    char pair[64]; /* help mem record */
    if (parsed->arg_count == 2) {
        snprintf(pair, sizeof(pair), "%s-%s", name, parsed->args[1]);
        name = pair;
    }
    if (!name) {
        gsp_cli__help_overview(&term, &text);
        gsp_buf_puts(&text, "\nTopics:");
        for (size_t i = 0; gsp_cli__help_topic_at(i); i++)
            gsp_buf_printf(&text, " gsprof help %s%s", gsp_cli__help_topic_at(i),
                           gsp_cli__help_topic_at(i + 1) ? "," : "\n");
    } else if (gsp_cli__command_find(name)) {
        gsp_cli__help_command(gsp_cli__command_find(name), true, &term, &text);
    } else if (!gsp_cli__help_topic(name, &text)) {
        return unknown(parsed, help_choice, "topic");
    }
    return print_text(parsed, &text);
}

static int run_completions(const struct gsp_parsed *parsed)
{
    gsp_auto_buf text = {0};
    if (!gsp_cli__complete_script(parsed->args[0], &text))
        return unknown(parsed, gsp_cli__complete_shell_at, "shell");
    return print_text(parsed, &text);
}

struct docs_opts {
    bool check;
};

static const struct gsp_opt DOCS_OPTS[] = {
    GSP_OPT_SWITCH(struct docs_opts, check, "check", 0, false,
                   "Write nothing; fail if a page differs."),
};

/* Writes one page, or compares it. */
static int put_page(const char *folder, const char *name, bool check, const struct gsp_buf *page,
                    struct gsp_err *err)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.md", folder, name);
    if (!check)
        return gsp_file_put(path, true, page, err);
    gsp_auto_buf old = {0};
    int rc = gsp_file_read(path, 1U << 20, &old, err);
    if (rc == GSP_OK && !gsp_sv_eq(gsp_buf_sv(&old), gsp_buf_sv(page)))
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "%.180s is out of date", path);
    return rc;
}

static int run_docs(const struct gsp_parsed *parsed)
{
    const struct docs_opts *opts = parsed->opts;
    const char *folder = parsed->args[0];
    struct gsp_err err = {0};
    gsp_auto_buf page = {0};
    if (!opts->check && mkdir(folder, 0777) < 0 && errno != EEXIST)
        return gsp_cli__misuse(parsed, "cannot create %.200s: %s", folder, strerror(errno));
    gsp_cli__help_markdown_index(&page);
    int rc = put_page(folder, "gsprof", opts->check, &page, &err);
    for (size_t i = 0; rc == GSP_OK && i < gsp_command_count; i++) {
        if (gsp_commands[i]->hidden)
            continue;
        char name[64];
        snprintf(name, sizeof(name), "gsprof-%s", gsp_commands[i]->name);
        gsp_buf_clear(&page);
        gsp_cli__help_markdown(gsp_commands[i], &page);
        rc = put_page(folder, name, opts->check, &page, &err);
    }
    gsp_buf_clear(&page);
    gsp_cli__schema_markdown(&page);
    if (rc == GSP_OK)
        rc = put_page(folder, "../sql-schema", opts->check, &page, &err);
    gsp_buf_clear(&page);
    gsp_cli__settings_markdown(&page);
    if (rc == GSP_OK)
        rc = put_page(folder, "../settings", opts->check, &page, &err);
    return rc < 0 ? gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err) : 0;
}

const struct gsp_command gsp_cmd_help = {
    .name = "help",
    .summary = "Explain a command or a topic: permissions, formats, sampling",
    .synopsis = "[TOPIC]",
    .about = "Without a topic, lists the commands and the topics.",
    GSP_COMMAND_EXAMPLES(HELP_EXAMPLES),
    .args_max = 2,
    .arg_choice = help_choice,
    .lesser = true,
    .run = run_help,
};

const struct gsp_command gsp_cmd_completions = {
    .name = "completions",
    .summary = "Print the completion script for bash, zsh or fish",
    .synopsis = "SHELL",
    .about = "The script completes every command, option and value of this version.",
    GSP_COMMAND_EXAMPLES(COMPLETIONS_EXAMPLES),
    .args_min = 1,
    .args_max = 1,
    .arg_choice = gsp_cli__complete_shell_at,
    .lesser = true,
    .run = run_completions,
};

const struct gsp_command gsp_cmd_docs = {
    .name = "docs",
    .summary = "Write the generated pages: docs/cli, sql-schema.md, settings.md",
    .synopsis = "[--check] FOLDER",
    .about = "For developers of gsprof.",
    GSP_COMMAND_OPTS(DOCS_OPTS, struct docs_opts),
    GSP_COMMAND_EXAMPLES(DOCS_EXAMPLES),
    .args_min = 1,
    .args_max = 1,
    .hidden = true,
    .run = run_docs,
};
