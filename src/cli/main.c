/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/common.h"
#include "cli/events.h"
#include "cli/help.h"
#include "cli/hint.h"

static void print_log(enum gsp_log_level level, const char *domain, const char *line)
{
    static const char *const names[] = {
        [GSP_LOG_WARN] = "warning: ", [GSP_LOG_INFO] = "", [GSP_LOG_DEBUG] = "debug: "};
    gsp_auto_buf text = {0};
    if (level == GSP_LOG_WARN)
        gsp_cli__events_warning(gsp_sv_of(line));
    gsp_buf_printf(&text, "gsprof: %s%s: ", names[level], domain);
    gsp_buf_term(&text, gsp_sv_of(line));
    gsp_buf_putc(&text, '\n');
    int rc = gsp_fd_write_all(STDERR_FILENO, text.p, text.len, NULL);
    (void)rc; /* stderr is closed: nowhere left to report */
}

static void set_log(const struct gsp_globals *globals)
{
    if (globals->quiet)
        return;
    enum gsp_log_level level = GSP_LOG_WARN;
    if (globals->verbose)
        level = globals->verbose > 1 ? GSP_LOG_DEBUG : GSP_LOG_INFO;
    gsp_log_set_sink(print_log, level);
}

static int fail(const struct gsp_parsed *parsed, const struct gsp_err *err)
{
    return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, err);
}

static int show_help(const struct gsp_parsed *parsed, int fd)
{
    struct gsp_term term;
    gsp_auto_buf text = {0};
    gsp_cli__term_init(&term, fd, parsed->globals.color);
    if (parsed->command)
        gsp_cli__help_command(parsed->command, parsed->globals.help_long, &term, &text);
    else
        gsp_cli__help_overview(&term, &text);
    if (text.failed) {
        struct gsp_err err = {0};
        gsp_ignore(gsp_err_nomem(&err));
        return fail(parsed, &err);
    }
    gsp_cli__term_write(&term, &text);
    return 0;
}

static int show_choices(const struct gsp_parsed *parsed)
{
    gsp_auto_buf text = {0};
    for (size_t i = 0; parsed->list->choice(i); i++)
        gsp_buf_printf(&text, "%s\n", parsed->list->choice(i));
    struct gsp_err err = {0};
    int rc = gsp_file_put(NULL, false, &text, &err);
    return rc == GSP_OK ? 0 : fail(parsed, &err);
}

static int dispatch(const struct gsp_parsed *parsed)
{
    if (parsed->globals.version) {
        puts("gsprof " GSP_VERSION);
        return 0;
    }
    if (parsed->globals.help || parsed->globals.help_long)
        return show_help(parsed, STDOUT_FILENO);
    if (parsed->list)
        return show_choices(parsed);
    if (!parsed->command) {
        show_help(parsed, STDERR_FILENO);
        return gsp_err_exit_status(GSP_E_USAGE);
    }
    set_log(&parsed->globals);
    return parsed->command->run(parsed);
}

int main(int argc, char **argv)
{
    struct gsp_parsed parsed;
    struct gsp_err err = {0};
    int rc = gsp_cli__parse(argc, argv, &parsed, &err);
    /* Also after an error, which is then reported there. */
    struct gsp_err bad_fd = {0};
    if (gsp_cli__events_open((int)parsed.globals.ready_fd, &bad_fd) < 0 && rc == GSP_OK) {
        err = bad_fd;
        rc = bad_fd.code;
    }
    int status = rc == GSP_OK ? dispatch(&parsed) : gsp_cli__misuse(&parsed, "%s", err.msg);
    gsp_cli__parsed_free(&parsed);
    return status;
}
