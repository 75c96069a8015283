/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/hint.h"

/* Columns of the statement that are shown, and how many of them before the error. */
#define EXCERPT_COLUMNS 72U
#define EXCERPT_BEFORE  48U
#define INDENT          "    "

/* Finds a line of the statement by its number, from 1; false if it does not exist. */
static bool find_line(struct gsp_sv sql, uint32_t number, struct gsp_sv *line)
{
    bool found = false;
    for (uint32_t i = 0; i < number; i++)
        found = gsp_sv_split(&sql, '\n', line);
    return found;
}

/* Moves text past one character. */
static struct gsp_sv skip_char(struct gsp_sv text)
{
    size_t n = gsp_utf8_len(text);
    n += n == 0;
    return (struct gsp_sv){text.p + n, text.len - n};
}

/* Shows the line of the error, with a mark below its column. */
static void put_excerpt(const struct gsp_hint_context *context, struct gsp_hint *out)
{
    struct gsp_sv line = {0};
    if (!context->sql_line || !context->sql_column ||
        !find_line(context->sql, context->sql_line, &line))
        return;
    uint32_t before = context->sql_column - 1;
    gsp_auto_buf text = {0};
    for (; before > EXCERPT_BEFORE && line.len > 0; before--)
        line = skip_char(line);
    bool is_cut = before != context->sql_column - 1;
    gsp_buf_puts(&text, INDENT);
    gsp_buf_puts(&text, is_cut ? "..." : "");
    gsp_auto_buf mark = {0};
    gsp_buf_printf(&mark, INDENT "%*s", is_cut ? 3 : 0, "");
    for (uint32_t i = 0; i < EXCERPT_COLUMNS && line.len > 0; i++) {
        struct gsp_sv rest = skip_char(line);
        gsp_auto_buf shown = {0};
        gsp_buf_term(&shown, (struct gsp_sv){line.p, line.len - rest.len});
        /* The width of a tab depends on the terminal. */
        struct gsp_sv safe = line.p[0] == '\t' ? gsp_sv_of(" ") : gsp_buf_sv(&shown);
        gsp_buf_putsv(&text, safe);
        /* Escaped characters take one column per byte, others are assumed to take one. */
        if (i < before)
            gsp_buf_printf(&mark, "%*s", safe.p[0] == '\\' ? (int)safe.len : 1, "");
        line = rest;
    }
    const char *shown = gsp_buf_cstr(&text);
    const char *below = gsp_buf_cstr(&mark);
    if (shown && below && text.len + mark.len + 8 < sizeof(out->excerpt))
        snprintf(out->excerpt, sizeof(out->excerpt), "%s%s\n%s^\n", shown, line.len ? "..." : "",
                 below);
}

static void add_tables(const char *endpoint, const char *option, const char *note,
                       struct gsp_hint *out)
{
    gsp_auto_buf quoted = {0};
    gsp_buf_shell(&quoted, gsp_sv_of(endpoint));
    const char *text = gsp_buf_cstr(&quoted);
    if (text)
        gsp_cli__hint_add(out, note, "gsprof tables %.180s%s", text, option);
}

static void hint_statement(const struct gsp_hint_context *context, struct gsp_hint *out)
{
    put_excerpt(context, out);
    if (context->candidate && context->candidate[0]) {
        gsp_auto_buf safe = {0};
        gsp_buf_term(&safe, gsp_sv_of(context->candidate));
        const char *text = gsp_buf_cstr(&safe);
        snprintf(out->why, sizeof(out->why), "did you mean %.120s?", text ? text : "");
    }
    add_tables(context->endpoint, " --columns", "lists tables and columns", out);
}

static void hint_no_process(struct gsp_hint *out)
{
    gsp_cli__hint_add(out, "lists processes with tables", "gsprof list");
    gsp_cli__hint_add(out, "lists Python processes", "pgrep -af python");
}

static void hint_not_permitted(const struct gsp_err *err, const struct gsp_hint_context *context,
                               struct gsp_hint *out)
{
    if (err->sys == 0 && context->sql.len > 0) {
        snprintf(out->why, sizeof(out->why), "queries are read-only and cannot access files");
        add_tables(context->endpoint, "", "lists the tables", out);
        return;
    }
    out->more = "gsprof help permissions";
    if (context->pid > 0)
        gsp_cli__hint_add(out, "as root", "sudo gsprof query %d", (int)context->pid);
}

void gsp_cli__hint_query(const struct gsp_err *err, const struct gsp_hint_context *context,
                         struct gsp_hint *out)
{
    snprintf(out->what, sizeof(out->what), "%s", err->msg[0] ? err->msg : gsp_err_text(err->code));
    switch (err->code) {
    case GSP_E_USAGE:
        if (context->sql.len > 0)
            hint_statement(context, out);
        break;
    case GSP_E_PERM:
        hint_not_permitted(err, context, out);
        break;
    case GSP_E_NOPROC:
        hint_no_process(out);
        break;
    case GSP_E_TIMEOUT:
        gsp_cli__hint_add(out, "allows more time", "gsprof query --timeout 5m ...");
        break;
    case GSP_E_LIMIT:
        gsp_cli__hint_add(out, "allows more memory", "gsprof query --memory 8G ...");
        break;
    case GSP_E_NOFILE:
        gsp_cli__hint_add(out, "lists processes with tables", "gsprof list");
        gsp_cli__hint_add(out, "lists files here", "ls -t");
        break;
    case GSP_E_FORMAT:
        gsp_cli__hint_add(out, "lists the formats", "gsprof help formats");
        break;
    case GSP_E_NOTSUP:
        gsp_cli__hint_add(out, "checks for the SQL engine", "gsprof doctor");
        break;
    default:
        break;
    }
}
