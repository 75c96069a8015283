/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/prompt.h"
#include "cli/query_runner.h"
#include "cli/remote.h"
#include "cli/rows_out.h"

/* The default limit of a printed table; other formats have none. */
#define TABLE_ROWS_MAX 10000U
#define SQL_BYTES_MAX  ((size_t)1 << 20)

struct query_opts {
    struct gsp_remote_opts remote;
    struct gsp_opt_list params;
    const char *format;
    const char *output;
    const char *file;
    const char *memory;
    int64_t timeout_ns;
    int64_t limit;
    bool force;
    bool timing;
    bool locals;
};

static const struct gsp_opt OPTS[] = {
    {.name = "format",
     .letter = 'f',
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct query_opts, format),
     .arg = "NAME",
     .choice = gsp_cli__rows_format_choice,
     .default_text = "from the extension of --output, else table",
     .help = "Output format. In csv, text that a spreadsheet takes for a formula gets a leading "
             "apostrophe; csv-raw leaves it unchanged."},
    GSP_OPT_OUTPUT(struct query_opts, "Write the rows to a file instead of stdout."),
    GSP_OPT_FORCE(struct query_opts),
    {.name = "file",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct query_opts, file),
     .arg = "FILE",
     .help = "Read the statements from a file."},
    {.name = "param",
     .kind = GSP_OPT_LIST,
     .offset = offsetof(struct query_opts, params),
     .arg = "[NAME=]VALUE",
     .help = "Value for the next ? of the statement, or for $NAME. Numbers are passed as numbers, "
             "everything else as text. Write =VALUE if VALUE itself contains =. Repeatable."},
    {.name = "limit",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct query_opts, limit),
     .arg = "N",
     .fallback = "-1",
     .default_text = "10000 for tables, else no limit",
     .min = -1,
     .max = 1e15,
     .help = "Maximum number of rows; 0 for all."},
    {.name = "timeout",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct query_opts, timeout_ns),
     .arg = "DURATION",
     .fallback = "30s",
     .help = "Cancel the query after this time."},
    {.name = "memory",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct query_opts, memory),
     .arg = "SIZE",
     .default_text = "a quarter of the machine's memory, at most 4G",
     .help = "Memory limit of the process, beyond what it uses when it starts: 512M, 4G.",
     .advanced = true},
    GSP_OPT_SWITCH(struct query_opts, timing, "timing", 0, false, "Print how long the query took."),
    GSP_OPT_SWITCH(struct query_opts, locals, "locals", 'l', false,
                   "Fill the column locals of python.backtrace with local variables as JSON."),
    GSP_OPT_TOKEN(struct query_opts),
    GSP_OPT_TOKEN_FILE(struct query_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof query 4242 'SELECT func, file, lineno FROM python.backtrace'",
     "Show the current stacks of a process"},
    {"gsprof query --locals 4242 'SELECT func, locals FROM python.backtrace'",
     "Show the local variables of each frame"},
    {"gsprof 4242 query 'SELECT * FROM python.torch_trace WHERE step > 100'",
     "Show rows that the process wrote; the PID may come first"},
    {"gsprof query profile.gsp 'FROM gsprof.hot_functions()'",
     "Show the functions of a recording that took the most time"},
    {"gsprof query runs/today 'FROM gsprof.slow_steps()' -f json", "Print JSON"},
    {"gsprof query 4242 'FROM python.torch_trace' -o trace.parquet", "Write a Parquet file"},
    {"gsprof query localhost:8091 'FROM session.list'", "Query a daemon"},
    {"gsprof query localhost:8091 'FROM session.list WHERE name = ?' --param epoch_5",
     "Pass a parameter"},
    {"gsprof query 4242", "Open a prompt with history and completion"},
};

/* The values of --param. */
struct values {
    struct gsp_param at[GSP_OPT_LIST_MAX];
    size_t count;
};

static bool is_name(struct gsp_sv text)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.p[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return text.len > 0;
}

static struct gsp_param read_value(const char *text)
{
    struct gsp_param param = {.kind = GSP_PARAM_TEXT, .text = gsp_sv_of(text)};
    if (gsp_parse_i64(text, INT64_MIN, INT64_MAX, &param.whole, NULL) == GSP_OK)
        param.kind = GSP_PARAM_I64;
    else if (gsp_parse_f64(text, -DBL_MAX, DBL_MAX, &param.number, NULL) == GSP_OK)
        param.kind = GSP_PARAM_F64;
    return param;
}

/* Returns false if only some of them have names. */
static bool read_values(const struct gsp_opt_list *list, struct values *out)
{
    *out = (struct values){0};
    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->at[i];
        const char *equals = strchr(text, '=');
        const struct gsp_sv name = {text, equals ? (size_t)(equals - text) : 0};
        const bool named = is_name(name);
        struct gsp_param *param = &out->at[out->count++];
        if (named)
            *param = read_value(equals + 1);
        else
            *param = read_value(equals == text ? text + 1 : text);
        param->name = named ? name : (struct gsp_sv){NULL, 0};
        if (named != (out->at[0].name.p != NULL))
            return false;
    }
    return true;
}

/* Reads the statements from the argument, a file or stdin. */
static int read_sql(const struct gsp_parsed *parsed, struct gsp_buf *out, struct gsp_err *err)
{
    const struct query_opts *opts = parsed->opts;
    const char *word = parsed->arg_count > 1 ? parsed->args[1] : NULL;
    if (opts->file && strcmp(opts->file, "-") != 0)
        return gsp_file_read(opts->file, SQL_BYTES_MAX, out, err);
    if (!word || strcmp(word, "-") == 0)
        return gsp_fd_read_all(STDIN_FILENO, SQL_BYTES_MAX, out, err);
    gsp_buf_puts(out, word);
    return out->failed ? gsp_err_nomem(err) : GSP_OK;
}

static int fill_options(const struct query_opts *opts, enum gsp_rows_format format,
                        struct gsp_store_options *out, struct gsp_err *err)
{
    *out = (struct gsp_store_options){.timeout_ns = opts->timeout_ns, .limit_process = true};
    out->row_limit = opts->limit >= 0 ? (uint64_t)opts->limit : 0;
    if (opts->limit < 0 && format == GSP_ROWS_TABLE)
        out->row_limit = TABLE_ROWS_MAX;
    if (!opts->memory)
        return GSP_OK;
    int rc = gsp_parse_size(opts->memory, &out->memory_bytes, err);
    if (rc == GSP_OK && out->memory_bytes == 0)
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "--memory must be greater than zero");
    return rc;
}

/* Runs the statements and writes their rows. */
static int query_once(struct gsp_query_runner *runner, const struct gsp_store_options *options,
                      const struct gsp_buf *sql)
{
    const struct gsp_parsed *parsed = runner->parsed;
    const struct query_opts *opts = parsed->opts;
    struct gsp_newfile file = {.fd = -1};
    struct gsp_err err = {0};
    const char *written = NULL;
    bool is_parquet = runner->dest.format == GSP_ROWS_PARQUET;
    int rc = opts->output ? gsp_file_check_new(opts->output, opts->force, &err) : GSP_OK;
    if (rc == GSP_OK && is_parquet) {
        /* The engine writes to the temporary file. */
        rc = gsp_newfile_open(&file, opts->output, opts->force, &err);
        written = file.tmp_path;
    }
    if (rc < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->output}, &err);
    int status = gsp_cli__query_open(runner, parsed->args[0], options, written);
    if (status == 0)
        status = gsp_cli__query_run(runner, gsp_buf_sv(sql));
    if (status == 0 && is_parquet && gsp_newfile_commit(&file, &err) < 0)
        status = gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->output}, &err);
    gsp_newfile_abort(&file);
    return status;
}

static int run_statement(struct gsp_query_runner *runner, const struct gsp_store_options *options)
{
    const struct gsp_parsed *parsed = runner->parsed;
    const struct query_opts *opts = parsed->opts;
    struct gsp_err err = {0};
    gsp_auto_buf sql = {0};
    if (read_sql(parsed, &sql, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->file}, &err);
    int status = query_once(runner, options, &sql);
    if (status == 0 && opts->output && strcmp(opts->output, "-") != 0 && !parsed->globals.quiet) {
        struct gsp_term term;
        gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
        gsp_cli__term_line(&term, "Wrote %s (%s).", opts->output,
                           gsp_cli__rows_format_choice(runner->dest.format));
    }
    return status;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct query_opts *opts = parsed->opts;
    struct gsp_store_options options;
    struct gsp_err err = {0};
    struct gsp_query_runner runner = {.parsed = parsed,
                                      .timing = opts->timing,
                                      .locals = opts->locals,
                                      .remote_opts = opts->remote};
    struct values values;
    runner.dest = (struct gsp_rows_dest){
        .path = opts->output, .color = parsed->globals.color, .force = opts->force};
    bool has_sql = parsed->arg_count > 1 || opts->file;
    if (parsed->arg_count > 1 && opts->file)
        return gsp_cli__misuse(parsed, "SQL and --file exclude each other");
    if (gsp_cli__rows_format_of(opts->format, opts->output, &runner.dest.format, &err) < 0 ||
        fill_options(opts, runner.dest.format, &options, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    if (runner.dest.format == GSP_ROWS_PARQUET && (!opts->output || strcmp(opts->output, "-") == 0))
        return gsp_cli__misuse(parsed, "the format parquet needs a file: --output FILE");
    if (runner.dest.format == GSP_ROWS_PARQUET && gsp_cli__remote_is_address(parsed->args[0]))
        return gsp_cli__misuse(parsed, "a daemon returns json, csv, csv-raw or arrow, not parquet");
    if (!read_values(&opts->params, &values))
        return gsp_cli__misuse(parsed, "--param: name all parameters or none");
    if (values.count && runner.dest.format == GSP_ROWS_PARQUET)
        return gsp_cli__misuse(parsed, "--param cannot be used with the format parquet");
    runner.params = (struct gsp_params){values.at, values.count};
    int status = 0;
    if (!has_sql && isatty(STDIN_FILENO)) {
        if (opts->output || values.count)
            return gsp_cli__misuse(parsed, "%s needs a statement",
                                   opts->output ? "--output" : "--param");
        status = gsp_cli__query_open(&runner, parsed->args[0], &options, NULL);
        if (status == 0)
            status = gsp_cli__prompt_run(&runner);
    } else {
        status = run_statement(&runner, &options);
    }
    gsp_cli__query_close(&runner);
    return status;
}

const struct gsp_command gsp_cmd_query = {
    .name = "query",
    .summary = "Query a process, a recording or a daemon with SQL",
    .synopsis = "ENDPOINT [SQL | - | --file FILE] [OPTIONS]",
    .about = "ENDPOINT is the pid of a process (its tables, which outlive it, and its current "
             "stacks while it runs), the folder of a run, a Parquet file, a profile in any "
             "supported format, or a daemon (HOST:PORT). SQL is one or more SELECT, EXPLAIN, SHOW "
             "TABLES or DESCRIBE statements in DuckDB's dialect, separated by semicolons. Queries "
             "are read-only and cannot access other files. `gsprof tables ENDPOINT` lists the "
             "tables; docs/sql.md has example queries.\n"
             "Without SQL, gsprof opens a prompt on a terminal: end statements with a semicolon; "
             "\\? prints help. Long tables are shown in $PAGER.",
    GSP_COMMAND_OPTS(OPTS, struct query_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 1,
    .args_max = 2,
    .takes_sql = true,
    .takes_endpoint = true,
    .run = run,
};
