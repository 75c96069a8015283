/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/attr.h"
#include "cli/help.h"

/* The pids that completion offers: processes with "python" in their name. */
#define PIDS "$(pgrep python 2>/dev/null)"

static void put_choices(const char *(*choice)(size_t i), struct gsp_buf *out)
{
    for (size_t i = 0; choice(i); i++)
        gsp_buf_printf(out, "%s%s", i ? " " : "", choice(i));
}

static void put_command_names(struct gsp_buf *out)
{
    const char *sep = "";
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (gsp_commands[i]->hidden)
            continue;
        gsp_buf_printf(out, "%s%s", sep, gsp_commands[i]->name);
        sep = " ";
    }
}

static void bash_names(const struct gsp_opt *opts, size_t count, struct gsp_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        gsp_buf_printf(out, " --%s", opts[i].name);
        if (opts[i].letter)
            gsp_buf_printf(out, " -%c", opts[i].letter);
    }
}

/* One case of "command option": the values that may follow. */
static void bash_value(const char *command, const struct gsp_opt *opt, struct gsp_buf *out)
{
    if (!opt->arg)
        return;
    gsp_buf_printf(out, "    \"%s --%s\"", command, opt->name);
    if (opt->letter)
        gsp_buf_printf(out, "|\"%s -%c\"", command, opt->letter);
    gsp_buf_puts(out, ") ");
    if (opt->kind == GSP_OPT_FILE) {
        gsp_buf_puts(out, "COMPREPLY=($(compgen -f -- \"$cur\"))");
    } else if (opt->kind == GSP_OPT_PID) {
        gsp_buf_puts(out, "COMPREPLY=($(compgen -W \"" PIDS "\" -- \"$cur\"))");
    } else if (opt->choice) {
        gsp_buf_puts(out, "COMPREPLY=($(compgen -W \"");
        put_choices(opt->choice, out);
        gsp_buf_puts(out, "\" -- \"$cur\"))");
    } else {
        gsp_buf_puts(out, "COMPREPLY=()");
    }
    gsp_buf_puts(out, "; return ;;\n");
}

static void put_bash(struct gsp_buf *out)
{
    gsp_buf_puts(out, "# gsprof, completion for bash:  source <(gsprof completions bash)\n"
                      "_gsprof() {\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    local cmd= word\n"
                      "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
                      "        case $word in -*) ;; *) cmd=$word; break ;; esac\n"
                      "    done\n"
                      "    # bash splits --option=value into three words.\n"
                      "    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then "
                      "prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                      "    case \"$cmd $prev\" in\n");
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        for (size_t k = 0; k < command->opt_count && !command->hidden; k++)
            bash_value(command->name, &command->opts[k], out);
    }
    for (size_t k = 0; k < gsp_global_opt_count; k++)
        bash_value("*", &gsp_global_opts[k], out);
    gsp_buf_puts(out, "    esac\n    case $cmd in\n    '') COMPREPLY=($(compgen -W \"");
    put_command_names(out);
    bash_names(gsp_global_opts, gsp_global_opt_count, out);
    gsp_buf_puts(out, "\" -- \"$cur\"));;\n");
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        if (command->hidden)
            continue;
        gsp_buf_printf(out, "    %s)\n        if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"",
                       command->name);
        bash_names(command->opts, command->opt_count, out);
        bash_names(gsp_global_opts, gsp_global_opt_count, out);
        gsp_buf_puts(out, "\" -- \"$cur\"))\n        else COMPREPLY=($(compgen ");
        if (command->arg_choice) {
            gsp_buf_puts(out, "-W \"");
            put_choices(command->arg_choice, out);
            gsp_buf_putc(out, '"');
        } else {
            gsp_buf_puts(out, command->takes_program ? "-c -f" : "-f");
        }
        gsp_buf_puts(out, " -- \"$cur\")); fi ;;\n");
    }
    gsp_buf_puts(out, "    esac\n}\ncomplete -o filenames -F _gsprof gsprof\n");
}

/* Appends the first sentence without its full stop, for a single-quoted string of zsh or fish.
 * Characters in escape get a backslash; quote replaces each single quote. */
static void put_text(const char *text, const char *escape, const char *quote, struct gsp_buf *out)
{
    for (; *text && !(text[0] == '.' && (text[1] == ' ' || text[1] == '\0')); text++) {
        if (*text == '\'') {
            gsp_buf_puts(out, quote);
            continue;
        }
        if (strchr(escape, *text))
            gsp_buf_putc(out, '\\');
        gsp_buf_putc(out, *text);
    }
}

#define ZSH_QUOTE  "'\\''"
#define FISH_QUOTE "\\'"

static void zsh_option(const struct gsp_opt *opt, struct gsp_buf *out)
{
    gsp_buf_puts(out, " \\\n            ");
    if (opt->letter)
        gsp_buf_printf(out, "'(-%c --%s)'{-%c,--%s%s}'", opt->letter, opt->name, opt->letter,
                       opt->name, opt->arg ? "=" : "");
    else
        gsp_buf_printf(out, "'--%s%s", opt->name, opt->arg ? "=" : "");
    gsp_buf_putc(out, '[');
    put_text(opt->help, "[]\\:", ZSH_QUOTE, out);
    gsp_buf_putc(out, ']');
    if (opt->arg) {
        gsp_buf_printf(out, ":%s:", opt->arg);
        if (opt->kind == GSP_OPT_FILE) {
            gsp_buf_puts(out, "_files");
        } else if (opt->kind == GSP_OPT_PID) {
            gsp_buf_puts(out, "_pids");
        } else if (opt->choice) {
            gsp_buf_putc(out, '(');
            put_choices(opt->choice, out);
            gsp_buf_putc(out, ')');
        }
    }
    gsp_buf_putc(out, '\'');
}

static void put_zsh(struct gsp_buf *out)
{
    gsp_buf_puts(out, "#compdef gsprof\n"
                      "# gsprof, completion for zsh:  gsprof completions zsh > "
                      "\"${fpath[1]}/_gsprof\"\n"
                      "_gsprof() {\n"
                      "    local curcontext=$curcontext state line\n"
                      "    _arguments -C '1:command:->command' '*::argument:->argument'\n"
                      "    case $state in\n"
                      "    command)\n"
                      "        local -a commands=(");
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (gsp_commands[i]->hidden)
            continue;
        gsp_buf_printf(out, "\n            '%s:", gsp_commands[i]->name);
        put_text(gsp_commands[i]->summary, "\\:", ZSH_QUOTE, out);
        gsp_buf_putc(out, '\'');
    }
    gsp_buf_puts(out, ")\n        _describe command commands ;;\n"
                      "    argument)\n        case $words[1] in\n");
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        if (command->hidden)
            continue;
        gsp_buf_printf(out, "        %s) _arguments -s", command->name);
        for (size_t k = 0; k < command->opt_count; k++)
            zsh_option(&command->opts[k], out);
        for (size_t k = 0; k < gsp_global_opt_count; k++)
            zsh_option(&gsp_global_opts[k], out);
        if (command->takes_program) {
            gsp_buf_puts(out, " \\\n            '*::program:_normal'");
        } else if (command->arg_choice) {
            gsp_buf_puts(out, " \\\n            '1:what:(");
            put_choices(command->arg_choice, out);
            gsp_buf_puts(out, ")'");
        } else if (command->args_max) {
            gsp_buf_puts(out, " \\\n            '*:file:_files'");
        }
        gsp_buf_puts(out, " ;;\n");
    }
    gsp_buf_puts(out, "        esac ;;\n    esac\n}\n"
                      "# Works when autoloaded from fpath and when sourced.\n"
                      "if [[ $funcstack[1] == _gsprof ]]; then _gsprof \"$@\"; "
                      "else compdef _gsprof gsprof; fi\n");
}

static void fish_option(const char *condition, const struct gsp_opt *opt, struct gsp_buf *out)
{
    gsp_buf_printf(out, "complete -c gsprof -n '%s' -l %s", condition, opt->name);
    if (opt->letter)
        gsp_buf_printf(out, " -s %c", opt->letter);
    if (opt->kind == GSP_OPT_FILE) {
        gsp_buf_puts(out, " -rF");
    } else if (opt->kind == GSP_OPT_PID) {
        gsp_buf_puts(out, " -x -a '(pgrep python)'");
    } else if (opt->choice) {
        gsp_buf_puts(out, " -x -a '");
        put_choices(opt->choice, out);
        gsp_buf_putc(out, '\'');
    } else if (opt->arg) {
        gsp_buf_puts(out, " -x");
    }
    gsp_buf_puts(out, " -d '");
    put_text(opt->help, "\\", FISH_QUOTE, out);
    gsp_buf_puts(out, "'\n");
}

static void put_fish(struct gsp_buf *out)
{
    gsp_buf_puts(out, "# gsprof, completion for fish:  gsprof completions fish > "
                      "~/.config/fish/completions/gsprof.fish\n"
                      "complete -c gsprof -f -n __fish_use_subcommand\n");
    for (size_t i = 0; i < gsp_command_count; i++) {
        const struct gsp_command *command = gsp_commands[i];
        if (command->hidden)
            continue;
        gsp_buf_printf(out, "complete -c gsprof -n __fish_use_subcommand -a %s -d '",
                       command->name);
        put_text(command->summary, "\\", FISH_QUOTE, out);
        gsp_buf_puts(out, "'\n");
        gsp_auto_buf condition = {0};
        gsp_buf_printf(&condition, "__fish_seen_subcommand_from %s", command->name);
        const char *text = gsp_buf_cstr(&condition);
        if (!text)
            continue;
        for (size_t k = 0; k < command->opt_count; k++)
            fish_option(text, &command->opts[k], out);
        for (size_t k = 0; k < gsp_global_opt_count; k++)
            fish_option(text, &gsp_global_opts[k], out);
        if (command->arg_choice) {
            gsp_buf_printf(out, "complete -c gsprof -f -n '%s' -a '", text);
            put_choices(command->arg_choice, out);
            gsp_buf_puts(out, "'\n");
        }
    }
}

static const struct {
    const char *name;
    void (*put)(struct gsp_buf *out);
} SHELLS[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

const char *gsp_cli__complete_shell_at(size_t i)
{
    return i < GSP_COUNT(SHELLS) ? SHELLS[i].name : NULL;
}

bool gsp_cli__complete_script(const char *shell, struct gsp_buf *out)
{
    for (size_t i = 0; i < GSP_COUNT(SHELLS); i++) {
        if (strcmp(SHELLS[i].name, shell) == 0) {
            SHELLS[i].put(out);
            return true;
        }
    }
    return false;
}
