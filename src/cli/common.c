/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/events.h"
#include "cli/hint.h"
#include "source/profile_file.h"

const struct gsp_command *const gsp_commands[] = {
    &gsp_cmd_run,          &gsp_cmd_record,     &gsp_cmd_top,          &gsp_cmd_dump,
    &gsp_cmd_flamegraph,   &gsp_cmd_convert,    &gsp_cmd_report,       &gsp_cmd_compare,
    &gsp_cmd_query,        &gsp_cmd_mem_record, &gsp_cmd_mem_report,   &gsp_cmd_tables,
    &gsp_cmd_serve,        &gsp_cmd_list,       &gsp_cmd_follow,       &gsp_cmd_backtrace,
    &gsp_cmd_http_profile, &gsp_cmd_http_stop,  &gsp_cmd_http_status,  &gsp_cmd_http_sessions,
    &gsp_cmd_http_login,   &gsp_cmd_inject,     &gsp_cmd_eject,        &gsp_cmd_eval,
    &gsp_cmd_config,       &gsp_cmd_stat,       &gsp_cmd_doctor,       &gsp_cmd_completions,
    &gsp_cmd_help,         &gsp_cmd_docs,       &gsp_cmd_query_worker,
};
const size_t gsp_command_count = GSP_COUNT(gsp_commands);

/* The i-th name of a readable or writable format; aliases come after all names. */
static const char *format_name(size_t i, bool to_write)
{
    for (size_t k = 0; k < gsp_export_format_count(); k++) {
        const struct gsp_format *format = gsp_export_format_at(k);
        if ((to_write ? format->write != NULL : format->read != NULL) && i-- == 0)
            return format->name;
    }
    for (size_t k = 0; k < gsp_export_format_count(); k++) {
        const struct gsp_format *format = gsp_export_format_at(k);
        if (to_write ? !format->write : !format->read)
            continue;
        for (size_t n = 0; n < GSP_COUNT(format->aliases); n++)
            if (format->aliases[n] && i-- == 0)
                return format->aliases[n];
    }
    return NULL;
}

const char *gsp_cli__format_choice(size_t i)
{
    /* The table of formats does not list the run folder; it comes first here. */
    return i == 0 ? GSP_SOURCE_RUN_FORMAT : format_name(i - 1, true);
}

const char *gsp_cli__from_choice(size_t i)
{
    return format_name(i, false);
}

int gsp_cli__misuse(const struct gsp_parsed *parsed, const char *fmt, ...)
{
    struct gsp_hint hint = {0};
    struct gsp_term term;
    gsp_auto_buf text = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(hint.what, sizeof(hint.what), fmt, args);
    va_end(args);
    if (parsed->suggestion[0])
        gsp_cli__hint_add(&hint, "", "%s", parsed->suggestion);
    gsp_cli__hint_add(&hint, "", "gsprof %s%s-h",
                      parsed->command ? gsp_cli__command_title(parsed->command) : "",
                      parsed->command ? " " : "");
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__hint_print(&hint, &term, &text);
    gsp_cli__events_error(&(struct gsp_err){.code = GSP_E_USAGE}, gsp_buf_sv(&text));
    gsp_cli__term_write(&term, &text);
    return gsp_err_exit_status(GSP_E_USAGE);
}

void gsp_cli__raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}
