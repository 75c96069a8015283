/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/query_runner.h"
#include "cli/run_compare.h"
#include "proc/task.h"
#include "report/document.h"
#include "report/document_write.h"
#include "report/process.h"
#include "report/profile.h"
#include "source/profile_file.h"

#define ROWS_DEFAULT 20U

struct report_opts {
    const char *input;
    const char *from;
    const char *output;
    const char *format;
    const char *table;
    const char *sort;
    int64_t top;
    double min_pct;
    bool tree;
    bool json;
    bool csv;
    bool markdown;
    bool force;
    bool lines;
    struct gsp_view_options view;
};

static const char *sort_choice(size_t i)
{
    static const char *const values[] = {"own", "total"};
    return i < GSP_COUNT(values) ? values[i] : NULL;
}

/* Formats, and the extensions that select them. */
static const struct {
    const char *name;
    enum gsp_report_format format;
    const char *extensions[2];
} FORMATS[] = {
    {"html", GSP_REPORT_HTML, {".html", ".htm"}}, {"json", GSP_REPORT_JSON, {".json", NULL}},
    {"csv", GSP_REPORT_CSV, {".csv", NULL}},      {"md", GSP_REPORT_MARKDOWN, {".md", NULL}},
    {"csv-raw", GSP_REPORT_CSV, {NULL, NULL}},    {"text", GSP_REPORT_TEXT, {".txt", ".text"}},
};

static const char *format_choice(size_t i)
{
    return i < GSP_COUNT(FORMATS) ? FORMATS[i].name : NULL;
}

static const char *const TABLES[] = {[GSP_REPORT_CSV_FUNCTIONS] = "functions",
                                     [GSP_REPORT_CSV_MODULES] = "modules",
                                     [GSP_REPORT_CSV_STEPS] = "steps",
                                     [GSP_REPORT_CSV_METRICS] = "metrics",
                                     [GSP_REPORT_CSV_SPANS] = "spans"};

static const char *table_choice(size_t i)
{
    return i < GSP_COUNT(TABLES) ? TABLES[i] : NULL;
}

static const struct gsp_opt OPTS[] = {
    GSP_OPT_INPUT(struct report_opts),
    {.name = "format",
     .letter = 'f',
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct report_opts, format),
     .arg = "NAME",
     .default_text = "from the extension of --output, else text",
     .help = "Output format: html (a page for a browser), json (the same data), csv (one table), "
             "csv-raw (text that a spreadsheet takes for a formula is not quoted), md or text.",
     .choice = format_choice},
    {.name = "table",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct report_opts, table),
     .arg = "NAME",
     .fallback = "functions",
     .help = "Table to write as csv.",
     .choice = table_choice},
    GSP_OPT_FROM(struct report_opts),
    {.name = "top",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct report_opts, top),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .default_text = "20; with --json and --csv, all",
     .help = "Rows of the table."},
    {.name = "sort",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct report_opts, sort),
     .arg = "BY",
     .fallback = "own",
     .help = "Sort by own time of a function, or by total time including callees.",
     .choice = sort_choice},
    GSP_OPT_SWITCH(struct report_opts, tree, "tree", 0, false,
                   "Print the call tree instead of a table."),
    {.name = "min-percent",
     .kind = GSP_OPT_REAL,
     .offset = offsetof(struct report_opts, min_pct),
     .arg = "P",
     .fallback = "1",
     .max = 100,
     .help = "Hide smaller branches of the tree.",
     .advanced = true},
    GSP_OPT_SWITCH(struct report_opts, json, "json", 0, false,
                   "Print the summary, table and tree of the stacks as JSON."),
    GSP_OPT_SWITCH(struct report_opts, csv, "csv", 0, false, "Print the table as CSV."),
    GSP_OPT_SWITCH(struct report_opts, markdown, "markdown", 0, false,
                   "Print the summary and the table as Markdown."),
    GSP_OPT_OUTPUT(struct report_opts, "Write to a file instead of stdout."),
    GSP_OPT_FORCE(struct report_opts),
    GSP_OPT_SWITCH(struct report_opts, lines, "lines", 0, false,
                   "Show each line of a function separately. By default lines are merged."),
    GSP_OPT_THREADS(struct report_opts),
    GSP_OPT_FUNCTION(struct report_opts),
    GSP_OPT_NOLINENO(struct report_opts),
    GSP_OPT_FULL_FILENAMES(struct report_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof report gsprof-runs/train -o report.html", "Write a page for a browser"},
    {"gsprof report profile.gsp", "Print the functions that took the most time"},
    {"gsprof report profile.json --sort total --top 50", "Sort by total time, 50 rows"},
    {"gsprof report profile.gsp --tree --min-percent 5", "Print the call tree above 5 %"},
    {"gsprof report profile.gsp --lines", "Print the lines that took the most time"},
    {"gsprof report gsprof-runs/train -f csv --table modules", "Print one table as CSV"},
    {"gsprof report before/ after/ -o difference.html", "Compare two runs"},
    {"gsprof report 4242", "Report on a process, running or exited"},
    {"gsprof report profile.gsp --json -o report.json", "Write JSON"},
};

static bool is_raw(const struct report_opts *opts)
{
    return opts->format && strcmp(opts->format, "csv-raw") == 0;
}

static int put_report(const struct report_opts *opts, const struct gsp_profile *profile,
                      struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_term term;
    struct gsp_view_options view = opts->view;
    view.by_function = view.by_function || !opts->lines;
    gsp_cli__term_init(&term, STDOUT_FILENO, "never");
    struct gsp_profile_report_opts report = {
        .sort = strcmp(opts->sort, "total") == 0 ? GSP_REPORT_SORT_TOTAL : GSP_REPORT_SORT_OWN,
        .limit = opts->top || opts->json || opts->csv ? (size_t)opts->top : ROWS_DEFAULT,
        .width = opts->output ? GSP_REPORT_WIDTH_DEFAULT : term.width,
        .raw = is_raw(opts),
        .min_pct = opts->json ? 0 : opts->min_pct,
    };
    if (opts->json) {
        int rc = gsp_report_profile_json(profile, &view, &report, out, err);
        gsp_buf_putc(out, '\n');
        return rc;
    }
    if (opts->csv)
        return gsp_report_profile_csv(profile, &view, &report, out, err);
    if (opts->markdown)
        return gsp_report_profile_markdown(profile, &view, &report, out, err);
    int rc = gsp_report_profile_summary(profile, &report, out, err);
    if (rc < 0)
        return rc;
    gsp_buf_putc(out, '\n');
    return opts->tree ? gsp_report_profile_tree(profile, &view, &report, out, err)
                      : gsp_report_profile_top(profile, &view, &report, out, err);
}

/* Options that select a report of the stacks alone. */
static bool has_old_form(const struct report_opts *opts)
{
    return opts->json || opts->csv || opts->markdown || opts->tree;
}

/* Whether any option concerns only stacks. */
static bool is_of_stacks(const struct report_opts *opts)
{
    const struct gsp_view_options *view = &opts->view;
    return has_old_form(opts) || opts->lines || view->threads || view->by_function ||
           view->no_lines || view->full_filenames;
}

/* From --format, else from the extension of the output, else text. */
static enum gsp_report_format format_of(const struct report_opts *opts)
{
    for (size_t i = 0; i < GSP_COUNT(FORMATS); i++) {
        if (opts->format && strcmp(opts->format, FORMATS[i].name) == 0)
            return FORMATS[i].format;
        for (size_t k = 0; !opts->format && opts->output && k < 2; k++) {
            const char *extension = FORMATS[i].extensions[k];
            if (extension && gsp_sv_ends(gsp_sv_of(opts->output), extension))
                return FORMATS[i].format;
        }
    }
    return GSP_REPORT_TEXT;
}

static enum gsp_report_csv_table table_of(const struct report_opts *opts)
{
    size_t i = 0;
    while (i + 1 < GSP_COUNT(TABLES) && strcmp(opts->table, TABLES[i]) != 0)
        i++;
    return (enum gsp_report_csv_table)i;
}

/* Writes a table of functions, which has its own options: --sort, --lines, --threads, ... */
static int write_stacks(const struct report_opts *opts, const char *input,
                        enum gsp_report_format format, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    struct gsp_profile *profile = NULL;
    struct report_opts as = *opts;
    as.csv = opts->csv || (!has_old_form(opts) && format == GSP_REPORT_CSV);
    as.markdown = opts->markdown || (!has_old_form(opts) && format == GSP_REPORT_MARKDOWN);
    int rc = gsp_source_profile_load(input, opts->from, false, &profile, err);
    if (rc == GSP_OK)
        rc = put_report(&as, profile, &text, err);
    if (rc == GSP_OK)
        rc = gsp_file_put(opts->output, opts->force, &text, err);
    gsp_model_profile_free(profile);
    return rc;
}

static int write_document(const struct report_opts *opts, const struct gsp_report *document,
                          const char *input, enum gsp_report_format format, struct gsp_err *err)
{
    struct gsp_term term;
    gsp_auto_buf text = {0};
    gsp_cli__term_init(&term, STDOUT_FILENO, "never");
    const struct gsp_report_write_opts how = {.table = table_of(opts),
                                              .raw = is_raw(opts),
                                              .name = input,
                                              .limit = (size_t)opts->top,
                                              .width = opts->output ? GSP_REPORT_WIDTH_DEFAULT
                                                                    : term.width};
    const int rc = gsp_report_write(document, format, &how, &text, err);
    return rc == GSP_OK ? gsp_file_put(opts->output, opts->force, &text, err) : rc;
}

static int write_path(const struct report_opts *opts, const char *input, struct gsp_err *err)
{
    const struct gsp_report_open_opts how = {.from = opts->from, .lines = opts->lines};
    const enum gsp_report_format format = format_of(opts);
    struct gsp_report *document = NULL;
    int rc = opts->output ? gsp_file_check_new(opts->output, opts->force, err) : GSP_OK;
    if (rc < 0)
        return rc;
    const bool is_profile = opts->from || gsp_report_kind_of(input) == GSP_REPORT_PROFILE;
    const bool is_table = format != GSP_REPORT_HTML && format != GSP_REPORT_JSON &&
                          table_of(opts) == GSP_REPORT_CSV_FUNCTIONS;
    if (has_old_form(opts) || (is_table && (is_profile || is_of_stacks(opts))))
        return write_stacks(opts, input, format, err);
    rc = gsp_report_open_path(input, &how, &document, err);
    if (rc == GSP_OK)
        rc = write_document(opts, document, input, format, err);
    gsp_report_free(document);
    return rc;
}

static void print_written(const struct gsp_parsed *parsed, const struct report_opts *opts)
{
    struct gsp_term term;
    if (parsed->globals.quiet || !opts->output || strcmp(opts->output, "-") == 0 ||
        format_of(opts) != GSP_REPORT_HTML)
        return;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__term_line(&term, "Wrote %s. Open it in a browser:", opts->output);
    gsp_cli__term_line(&term, "    xdg-open %s", opts->output);
}

/* Whether the argument is a pid and not a file. */
static bool is_process(const char *arg)
{
    return arg[0] != '\0' && arg[strspn(arg, "0123456789")] == '\0' && access(arg, F_OK) != 0;
}

static void put_command(const struct gsp_endpoint *endpoint, struct gsp_buf *out)
{
    if (endpoint->is_live)
        gsp_proc_cmdline(endpoint->pid, out);
    else
        gsp_buf_puts(out, endpoint->ring_dirs.at[0].cmdline);
}

/* The report of the process alone: text or JSON on stdout. */
static int print_process(struct gsp_query_runner *runner, const char *command, struct gsp_err *err)
{
    const struct report_opts *opts = runner->parsed->opts;
    const struct gsp_endpoint *endpoint = &runner->endpoint;
    const struct gsp_report_process_facts facts = {.pid = endpoint->pid,
                                                   .is_live = endpoint->is_live,
                                                   .has_rings = endpoint->has_rings,
                                                   .last_write_ns =
                                                       endpoint->ring_dirs.at[0].last_write_ns,
                                                   .command = command};
    struct gsp_term term;
    struct gsp_out out;
    int rc = GSP_OK;
    gsp_out_init(&out, STDOUT_FILENO);
    if (opts->json) {
        rc = gsp_report_process_json(runner->store, &facts, &out.buf, err);
    } else {
        gsp_cli__term_init(&term, STDOUT_FILENO, runner->parsed->globals.color);
        out.colors = true;
        const struct gsp_rows_table_opts style = {.width = term.is_tty ? term.width : 0,
                                                  .color = term.color};
        rc = gsp_report_process_text(runner->store, &facts, &style, &out, err);
    }
    if (rc < 0)
        gsp_buf_clear(&out.buf);
    const int finished = gsp_out_finish(&out, rc == GSP_OK ? err : NULL);
    return rc == GSP_OK ? finished : rc;
}

/* The report of the process as a document, in a format or to a file. */
static int write_process(struct gsp_query_runner *runner, const char *pid, const char *command,
                         struct gsp_err *err)
{
    const struct report_opts *opts = runner->parsed->opts;
    const struct gsp_report_open_opts how = {.command = command};
    struct gsp_report *document = NULL;
    int rc = gsp_report_open_store(runner->store, NULL, pid, &how, &document, err);
    if (rc == GSP_OK)
        rc = write_document(opts, document, pid, format_of(opts), err);
    gsp_report_free(document);
    return rc;
}

static int report_process(const struct gsp_parsed *parsed, const char *pid)
{
    const struct report_opts *opts = parsed->opts;
    const struct gsp_store_options options = {0};
    struct gsp_query_runner runner = {.parsed = parsed};
    struct gsp_err err = {0};
    gsp_auto_buf command = {0};
    if (opts->csv || opts->markdown || opts->tree)
        return gsp_cli__misuse(parsed, "--csv, --markdown and --tree do not apply to a process");
    int rc = opts->output ? gsp_file_check_new(opts->output, opts->force, &err) : GSP_OK;
    if (rc < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->output}, &err);
    int status = gsp_cli__query_open(&runner, pid, &options, NULL);
    if (status != 0) {
        gsp_cli__query_close(&runner);
        return status;
    }
    put_command(&runner.endpoint, &command);
    const char *text = gsp_buf_cstr(&command);
    if (!text)
        rc = gsp_err_nomem(&err);
    else if (opts->json || (!opts->format && !opts->output))
        rc = print_process(&runner, text, &err);
    else
        rc = write_process(&runner, pid, text, &err);
    const bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
    if (rc < 0)
        status = gsp_cli__fail(parsed,
                               &(struct gsp_hint_context){.pid = runner.endpoint.pid,
                                                          .path = is_output ? opts->output : NULL},
                               &err);
    else
        print_written(parsed, opts);
    gsp_cli__query_close(&runner);
    return status;
}

/* The report of two recordings is their comparison. */
static int report_two(const struct gsp_parsed *parsed)
{
    const struct report_opts *opts = parsed->opts;
    if (opts->from || is_of_stacks(opts))
        return gsp_cli__misuse(
            parsed, "only --format, --output, --force and --top apply to two recordings");
    if (opts->format && strncmp(opts->format, "csv", 3) == 0)
        return gsp_cli__misuse(parsed, "the format of a comparison is html, json, md or text");
    return gsp_cli__compare(
        parsed, &(struct gsp_cli_compare_opts){.path = {parsed->args[0], parsed->args[1]},
                                               .format = opts->format,
                                               .output = opts->output,
                                               .limit = (size_t)opts->top,
                                               .warmup = -1,
                                               .force = opts->force});
}

static int run(const struct gsp_parsed *parsed)
{
    const struct report_opts *opts = parsed->opts;
    const char *input = opts->input ? opts->input : parsed->args[0];
    if (!input)
        return gsp_cli__misuse(parsed, "report needs a run, a session, a profile or a process");
    if (opts->json + opts->csv + opts->markdown > 1)
        return gsp_cli__misuse(parsed, "--json, --csv and --markdown exclude each other");
    if (opts->format && has_old_form(opts))
        return gsp_cli__misuse(parsed, "--format excludes --json, --csv, --markdown and --tree");
    if (opts->tree && (opts->csv || opts->markdown))
        return gsp_cli__misuse(parsed, "--tree excludes --csv and --markdown");
    if (format_of(opts) == GSP_REPORT_HTML && !opts->output && isatty(STDOUT_FILENO))
        return gsp_cli__misuse(parsed, "html needs an output file: -o report.html");
    if (opts->input && parsed->arg_count > 0)
        return gsp_cli__misuse(parsed, "--input and '%.80s' exclude each other", parsed->args[0]);
    if (parsed->arg_count == 2)
        return report_two(parsed);
    if (!opts->input && !opts->from && is_process(input))
        return report_process(parsed, input);
    struct gsp_err err = {0};
    const int rc = write_path(opts, input, &err);
    if (rc < 0) {
        bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
        return gsp_cli__fail(
            parsed, &(struct gsp_hint_context){.path = is_output ? opts->output : input}, &err);
    }
    print_written(parsed, opts);
    return 0;
}

const struct gsp_command gsp_cmd_report = {
    .name = "report",
    .summary = "Show where the time of a run, profile or process went",
    .synopsis = "RUN | SESSION | PROFILE | PID [OPTIONS]",
    .about = "Reads the folder of a run, a session file, a memory recording, or a profile in any "
             "supported format. "
             "Reports where the time went, memory and GPU use, slow steps and modules, and missing "
             "data. -o report.html writes a self-contained page; docs/formats/report.md describes "
             "-f json.\n"
             "In the table of functions, \"own\" is the time in the function itself, \"total\" "
             "includes the functions it called. The summary lists losses.\n"
             "For two recordings, prints a comparison like `gsprof compare`.\n"
             "For a process, running or exited, reports what its tables contain: how it exited, "
             "its last step, slow modules, the last spans, memory and CPU, and the last stacks of "
             "its threads.",
    GSP_COMMAND_OPTS(OPTS, struct report_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_max = 2,
    .takes_endpoint = true,
    .run = run,
};
