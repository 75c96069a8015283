/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/prompt.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xdg.h"
#include "cli/common.h"
#include "cli/term.h"
#include "model/cells.h"

#define HISTORY_LINES 1000
#define PATH_CAP      4096U
/* More matches than this are counted, not listed. */
#define MATCHES_MAX   200U

struct prompt {
    struct gsp_query_runner *runner;
    EditLine *el;
    History *history;
    struct gsp_buf sql;   /* the lines of the statement so far */
    struct gsp_buf words; /* for completion, each followed by a NUL; filled on first use */
    char path[PATH_CAP];  /* of the history; "" if it is not saved */
    bool interrupted;     /* Ctrl-C was typed */
    bool done;
};

static const char HELP[] =
    "Statements end with ; and may span several lines.\n"
    "  \\d             list the tables\n"
    "  \\d TABLE       list the columns of a table\n"
    "  \\format NAME   set the output format: table, json, csv or csv-raw\n"
    "  \\timing        toggle printing of query times\n"
    "  \\x             toggle one value per line\n"
    "  \\?             print this help\n"
    "  \\q             quit; also Ctrl-D\n"
    "Tab completes, the arrow keys browse the history, Ctrl-C clears the line or "
    "cancels the query.\n";

static const char KEYWORDS[] =
    "SELECT\0FROM\0WHERE\0GROUP BY\0ORDER BY\0LIMIT\0OFFSET\0HAVING\0JOIN\0LEFT JOIN\0ASOF JOIN\0"
    "USING\0ON\0AS\0AND\0OR\0NOT\0NULL\0IS\0IN\0LIKE\0ILIKE\0BETWEEN\0CASE\0WHEN\0THEN\0ELSE\0END\0"
    "DISTINCT\0UNION ALL\0WITH\0EXPLAIN\0ANALYZE\0DESC\0ASC\0OVER\0PARTITION BY\0QUALIFY\0FILTER\0"
    "count(*)\0sum(\0avg(\0min(\0max(\0median(\0quantile_cont(\0arg_max(\0arg_min(\0date_trunc(\0"
    "EXCLUDE\0SUMMARIZE\0\\d\0\\format\0\\timing\0\\q\0\\x\0\\?";

static char *prompt_text(EditLine *el)
{
    static char first[] = "gsprof> ";
    static char later[] = "     -> ";
    struct prompt *prompt = NULL;
    el_get(el, EL_CLIENTDATA, (void **)&prompt);
    return prompt && prompt->sql.len ? later : first;
}

/* Appends the first column of a query as words; ignores errors. */
static void add_words(struct prompt *prompt, const char *sql)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    if (gsp_cli__query_rows(prompt->runner, sql, &rows, NULL) < 0)
        return;
    while (gsp_rows_next(rows, &batch, NULL) == 1) {
        for (size_t row = 0; row < batch.row_count; row++) {
            gsp_model_cell_put(&rows->columns[0], &batch.values[0], row, &prompt->words);
            gsp_buf_putc(&prompt->words, '\0');
        }
    }
    gsp_rows_free(rows);
}

static void make_words(struct prompt *prompt)
{
    if (prompt->words.len)
        return;
    add_words(prompt, "SELECT table_schema || '.' || table_name FROM information_schema.tables "
                      "ORDER BY ALL");
    add_words(prompt, "SELECT DISTINCT column_name FROM information_schema.columns ORDER BY ALL");
    add_words(prompt, "SELECT DISTINCT 'gsprof.' || function_name || '(' FROM duckdb_functions() "
                      "WHERE schema_name = 'gsprof' ORDER BY ALL");
    gsp_buf_put(&prompt->words, KEYWORDS, sizeof(KEYWORDS));
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '\\';
}

static void show_matches(const struct gsp_buf *list, size_t count)
{
    struct gsp_term term;
    gsp_auto_buf text = {0};
    gsp_cli__term_init(&term, STDOUT_FILENO, "never");
    gsp_buf_putc(&text, '\n');
    if (count > MATCHES_MAX)
        gsp_buf_printf(&text, "%zu matches", count);
    struct gsp_sv rest = gsp_buf_sv(list);
    struct gsp_sv word;
    size_t column = 0;
    while (count <= MATCHES_MAX && gsp_sv_split(&rest, '\0', &word)) {
        if (column && column + word.len + 2 > term.width) {
            gsp_buf_putc(&text, '\n');
            column = 0;
        }
        gsp_buf_puts(&text, column ? "  " : "");
        gsp_buf_term(&text, word);
        column += word.len + 2;
    }
    gsp_buf_putc(&text, '\n');
    gsp_cli__term_write(&term, &text);
}

static unsigned char on_tab(EditLine *el, int ch)
{
    (void)ch;
    struct prompt *prompt = NULL;
    el_get(el, EL_CLIENTDATA, (void **)&prompt);
    const LineInfo *line = el_line(el);
    const char *start = line->cursor;
    while (start > line->buffer && is_word_char(start[-1]))
        start--;
    make_words(prompt);
    struct gsp_words words = {gsp_buf_sv(&prompt->words)};
    struct gsp_sv typed = {start, (size_t)(line->cursor - start)};
    gsp_auto_buf common = {0};
    gsp_auto_buf list = {0};
    size_t count = gsp_cli__prompt_complete(&words, typed, &common, &list);
    if (count == 0)
        return CC_ERROR;
    if (count == 1 && common.p && common.len && common.p[common.len - 1] != '(')
        gsp_buf_putc(&common, ' ');
    const char *text = gsp_buf_cstr(&common);
    if (text && text[0]) {
        el_insertstr(el, text);
        return CC_REFRESH;
    }
    show_matches(&list, count);
    return CC_REDISPLAY;
}

static unsigned char on_interrupt(EditLine *el, int ch)
{
    (void)ch;
    struct prompt *prompt = NULL;
    el_get(el, EL_CLIENTDATA, (void **)&prompt);
    prompt->interrupted = true;
    return CC_NEWLINE;
}

/* libedit's signal handler restores the terminal before the process stops. */
static unsigned char on_suspend(EditLine *el, int ch)
{
    (void)el;
    (void)ch;
    raise(SIGTSTP);
    return CC_REDISPLAY;
}

/* Creates the folder of the history and returns the file's path; "" if that fails. */
static void find_history(char *path, size_t cap)
{
    char folder[PATH_CAP - 32];
    path[0] = '\0';
    if (!gsp_xdg_path(GSP_XDG_STATE, "", folder, sizeof(folder)))
        return;
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700); /* the last mkdir() shows whether it worked */
        *slash = '/';
    }
    if (mkdir(folder, 0700) == 0 || errno == EEXIST)
        snprintf(path, cap, "%s/query_history", folder);
}

static bool begin(struct prompt *prompt)
{
    HistEvent event;
    setlocale(LC_CTYPE, "C.UTF-8");
    prompt->el = el_init("gsprof", stdin, stdout, stderr);
    prompt->history = history_init();
    if (!prompt->el || !prompt->history)
        return false;
    history(prompt->history, &event, H_SETSIZE, HISTORY_LINES);
    history(prompt->history, &event, H_SETUNIQUE, 1);
    find_history(prompt->path, sizeof(prompt->path));
    if (prompt->path[0])
        history(prompt->history, &event, H_LOAD, prompt->path);
    el_set(prompt->el, EL_CLIENTDATA, prompt);
    el_set(prompt->el, EL_PROMPT, prompt_text);
    el_set(prompt->el, EL_EDITOR, "emacs");
    el_set(prompt->el, EL_SIGNAL, 1);
    el_set(prompt->el, EL_HIST, history, prompt->history);
    el_set(prompt->el, EL_ADDFN, "gsp-complete", "Complete a word", on_tab);
    el_set(prompt->el, EL_ADDFN, "gsp-interrupt", "Drop the line", on_interrupt);
    el_set(prompt->el, EL_ADDFN, "gsp-suspend", "Back to the shell", on_suspend);
    el_set(prompt->el, EL_BIND, "^I", "gsp-complete", NULL);
    el_set(prompt->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    /* While a line is edited, Ctrl-C is a key: a signal would kill the program. */
    el_set(prompt->el, EL_SETTY, "-d", "-isig", NULL);
    el_set(prompt->el, EL_BIND, "^C", "gsp-interrupt", NULL);
    el_set(prompt->el, EL_BIND, "^Z", "gsp-suspend", NULL);
    el_source(prompt->el, NULL); /* ~/.editrc: the user's key bindings */
    return true;
}

static void end(struct prompt *prompt)
{
    if (prompt->history)
        history_end(prompt->history);
    if (prompt->el)
        el_end(prompt->el);
    gsp_buf_free(&prompt->sql);
    gsp_buf_free(&prompt->words);
}

static void print_line(const struct prompt *prompt, const char *text)
{
    struct gsp_term term;
    gsp_cli__term_init(&term, STDERR_FILENO, prompt->runner->parsed->globals.color);
    gsp_cli__term_line(&term, "%s", text);
}

static void set_format(struct prompt *prompt, const char *name)
{
    enum gsp_rows_format format = GSP_ROWS_TABLE;
    struct gsp_err err = {0};
    if (gsp_cli__rows_format_of(name[0] ? name : "table", NULL, &format, &err) < 0)
        print_line(prompt, err.msg);
    else if (format == GSP_ROWS_ARROW || format == GSP_ROWS_PARQUET)
        print_line(prompt, "The prompt supports only table, json, csv and csv-raw.");
    else
        prompt->runner->dest.format = format;
}

/* \d and \d TABLE, with or without its schema. */
static void describe(struct prompt *prompt, const char *name)
{
    gsp_auto_buf sql = {0};
    const char *dot = strchr(name, '.');
    const char *table = dot ? dot + 1 : name;
    if (!name[0]) {
        gsp_buf_puts(&sql, "SELECT table_schema AS schema, table_name AS \"table\" "
                           "FROM information_schema.tables ORDER BY ALL");
    } else {
        gsp_buf_puts(&sql, "SELECT table_schema || '.' || table_name AS \"table\", "
                           "column_name AS \"column\", "
                           "if(data_type LIKE 'ENUM%', 'VARCHAR', data_type) AS type "
                           "FROM information_schema.columns WHERE table_name = '");
        for (; *table; table++) {
            gsp_buf_putc(&sql, *table);
            if (*table == '\'')
                gsp_buf_putc(&sql, '\'');
        }
        gsp_buf_puts(&sql, "' ORDER BY table_schema, table_name, ordinal_position");
    }
    gsp_cli__query_run(prompt->runner, gsp_buf_sv(&sql));
}

/* Runs a line that begins with a backslash. */
static void run_command(struct prompt *prompt, char *line)
{
    char *arg = line + strcspn(line, " \t");
    if (*arg)
        *arg++ = '\0';
    arg += strspn(arg, " \t");
    arg[strcspn(arg, " \t;")] = '\0';
    line[strcspn(line, ";")] = '\0';
    struct gsp_query_runner *runner = prompt->runner;
    if (strcmp(line, "\\q") == 0) {
        prompt->done = true;
    } else if (strcmp(line, "\\?") == 0) {
        printf("%s", HELP);
    } else if (strcmp(line, "\\timing") == 0) {
        runner->timing = !runner->timing;
        print_line(prompt, runner->timing ? "Timing is on." : "Timing is off.");
    } else if (strcmp(line, "\\x") == 0) {
        runner->dest.vertical = !runner->dest.vertical;
        print_line(prompt, runner->dest.vertical ? "One value per line." : "One row per line.");
    } else if (strcmp(line, "\\format") == 0) {
        set_format(prompt, arg);
    } else if (strcmp(line, "\\d") == 0) {
        describe(prompt, arg);
    } else {
        print_line(prompt, "Unknown command; \\? lists the commands.");
    }
    fflush(stdout);
}

static void add_to_history(const struct prompt *prompt, const char *text)
{
    HistEvent event;
    gsp_auto_buf line = {0};
    gsp_buf_puts(&line, text);
    for (size_t i = 0; i < line.len; i++)
        line.p[i] = (char)(line.p[i] == '\n' ? ' ' : line.p[i]);
    while (line.len && line.p[line.len - 1] == ' ')
        line.len--;
    const char *shown = gsp_buf_cstr(&line);
    if (!shown || !shown[0])
        return;
    history(prompt->history, &event, H_ENTER, shown);
    if (prompt->path[0])
        history(prompt->history, &event, H_SAVE, prompt->path);
}

static void handle_line(struct prompt *prompt, const char *line)
{
    const char *first = line + strspn(line, " \t\n");
    /* Blank lines and comments do not begin a statement: a command may follow. */
    if (prompt->sql.len == 0 && (first[0] == '\0' || strncmp(first, "--", 2) == 0))
        return;
    if (prompt->sql.len == 0 &&
        (first[0] == '\\' || strcmp(first, "exit\n") == 0 || strcmp(first, "quit\n") == 0)) {
        gsp_auto_buf copy = {0};
        gsp_buf_put(&copy, first, strcspn(first, "\n"));
        add_to_history(prompt, first);
        if (first[0] == '\\' && gsp_buf_cstr(&copy))
            run_command(prompt, copy.p);
        else
            prompt->done = true;
        return;
    }
    gsp_buf_puts(&prompt->sql, line);
    if (!gsp_cli__prompt_is_complete(gsp_buf_sv(&prompt->sql)))
        return;
    const char *text = gsp_buf_cstr(&prompt->sql);
    if (text)
        add_to_history(prompt, text);
    /* Prints its errors; the prompt continues. */
    gsp_cli__query_run(prompt->runner, gsp_buf_sv(&prompt->sql));
    gsp_buf_clear(&prompt->sql);
}

int gsp_cli__prompt_run(struct gsp_query_runner *runner)
{
    struct prompt prompt = {.runner = runner};
    if (!begin(&prompt)) {
        end(&prompt);
        return gsp_cli__misuse(runner->parsed, "cannot open a prompt on this terminal");
    }
    /* Between a query and the next line, the terminal still turns Ctrl-C into a signal. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    sigaction(SIGINT, &ignore, &old);
    if (!runner->parsed->globals.quiet)
        print_line(&prompt, "Enter SQL and end it with a semicolon; \\? prints help, \\q quits.");
    while (!prompt.done) {
        int count = 0;
        prompt.interrupted = false;
        const char *line = el_gets(prompt.el, &count);
        if (prompt.interrupted) {
            gsp_buf_clear(&prompt.sql);
            print_line(&prompt, "^C");
        } else if (!line || count <= 0) {
            prompt.done = true;
            print_line(&prompt, "");
        } else {
            handle_line(&prompt, line);
        }
    }
    sigaction(SIGINT, &old, NULL);
    end(&prompt);
    return 0;
}
