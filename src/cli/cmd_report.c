/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/hint.h"
#include "cli/report_process.h"
#include "report/report.h"

#define ROWS_DEFAULT 20U

struct report_opts {
    const char *input;
    const char *from;
    const char *output;
    const char *sort;
    int64_t top;
    double min_pct;
    bool tree;
    bool json;
    bool csv;
    bool markdown;
    bool force;
    bool lines;
    struct gsp_view view;
};

static const char *sort_choice(size_t i)
{
    static const char *const values[] = {"own", "total"};
    return i < GSP_COUNT(values) ? values[i] : NULL;
}

static const struct gsp_opt OPTS[] = {
    GSP_OPT_INPUT(struct report_opts),
    GSP_OPT_FROM(struct report_opts),
    {.name = "top",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct report_opts, top),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .help = "Rows of the table. Default: 20; all for --json and --csv."},
    {.name = "sort",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct report_opts, sort),
     .arg = "BY",
     .fallback = "own",
     .help = "own: what a function did itself; total: with everything it called.",
     .choice = sort_choice},
    {.name = "tree",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct report_opts, tree),
     .help = "The call tree instead of the table."},
    {.name = "min-percent",
     .kind = GSP_OPT_REAL,
     .offset = offsetof(struct report_opts, min_pct),
     .arg = "P",
     .fallback = "1",
     .max = 100,
     .help = "Leave smaller branches out of the tree.",
     .advanced = true},
    {.name = "json",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct report_opts, json),
     .help = "For programs: summary, table and tree."},
    {.name = "csv",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct report_opts, csv),
     .help = "The table for a spreadsheet."},
    {.name = "markdown",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct report_opts, markdown),
     .help = "Summary and table for a page."},
    GSP_OPT_OUTPUT(struct report_opts, "Write to a file instead of stdout."),
    GSP_OPT_FORCE(struct report_opts),
    GSP_OPT_SWITCH(struct report_opts, lines, "lines", 0, false,
                   "Each line of a function apart; without it lines are merged, as --function "
                   "does."),
    GSP_OPT_THREADS(struct report_opts),
    GSP_OPT_FUNCTION(struct report_opts),
    GSP_OPT_NOLINENO(struct report_opts),
    GSP_OPT_FULL_FILENAMES(struct report_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof report profile.gsp", "The functions that took the most time"},
    {"gsprof report profile.json --sort total --top 50", "With what they called, fifty rows"},
    {"gsprof report profile.gsp --tree --min-percent 5", "The call tree, branches above 5 %"},
    {"gsprof report profile.gsp --lines", "The lines that took the most time"},
    {"gsprof report 4242", "What a process does, or did before it ended"},
    {"gsprof report profile.gsp --json -o report.json", "For a program to read"},
};

static int put_report(const struct report_opts *opts, const struct gsp_profile *profile,
                      struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_term term;
    struct gsp_view view = opts->view;
    view.by_function = view.by_function || !opts->lines;
    gsp_term_init(&term, STDOUT_FILENO, "never");
    struct gsp_report_opts report = {
        .sort = strcmp(opts->sort, "total") == 0 ? GSP_REPORT_SORT_TOTAL : GSP_REPORT_SORT_OWN,
        .limit = opts->top || opts->json || opts->csv ? (size_t)opts->top : ROWS_DEFAULT,
        .width = opts->output ? GSP_REPORT_WIDTH_DEFAULT : term.width,
        .min_pct = opts->json ? 0 : opts->min_pct,
    };
    if (opts->json) {
        int rc = gsp_report_json(profile, &view, &report, out, err);
        gsp_buf_putc(out, '\n');
        return rc;
    }
    if (opts->csv)
        return gsp_report_csv(profile, &view, &report, out, err);
    if (opts->markdown)
        return gsp_report_markdown(profile, &view, &report, out, err);
    int rc = gsp_report_summary(profile, &report, out, err);
    if (rc < 0)
        return rc;
    gsp_buf_putc(out, '\n');
    return opts->tree ? gsp_report_tree(profile, &view, &report, out, err)
                      : gsp_report_top(profile, &view, &report, out, err);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct report_opts *opts = parsed->opts;
    const char *input = opts->input ? opts->input : parsed->args[0];
    if (!input)
        return gsp_cli_misuse(parsed, "report needs a profile to read, or a process: FILE or PID");
    if (opts->json + opts->csv + opts->markdown > 1)
        return gsp_cli_misuse(parsed, "--json, --csv and --markdown exclude each other");
    if (opts->tree && (opts->csv || opts->markdown))
        return gsp_cli_misuse(parsed, "--tree is text or --json");
    if (!opts->input && !opts->from && gsp_report_is_process(input)) {
        if (opts->csv || opts->markdown || opts->tree || opts->output)
            return gsp_cli_misuse(parsed, "the report of a process is text or --json, to stdout");
        return gsp_report_process(parsed, input, opts->json);
    }
    gsp_auto_buf text = {0};
    struct gsp_err err = {0};
    struct gsp_profile *profile = NULL;
    int rc = opts->output ? gsp_cli_check_output(opts->output, opts->force, &err) : GSP_OK;
    if (rc == GSP_OK)
        rc = gsp_cli_load(input, opts->from, false, &profile, &err);
    if (rc == GSP_OK)
        rc = put_report(opts, profile, &text, &err);
    if (rc == GSP_OK)
        rc = gsp_cli_put_text(opts->output, opts->force, &text, &err);
    gsp_profile_free(profile);
    if (rc < 0) {
        bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
        return gsp_cli_fail(
            parsed, &(struct gsp_hint_context){.path = is_output ? opts->output : input}, &err);
    }
    return 0;
}

const struct gsp_command gsp_cmd_report = {
    .name = "report",
    .summary = "Show where a profile's time went, or what a process did",
    .synopsis = "FILE | PID [OPTIONS]",
    .about = "Reads a profile in any readable format. \"own\" is what a function did itself, "
             "\"total\" includes what it called. Losses are told in the summary.\n"
             "Of a process, live or ended, it tells what its tables have: how it ended, its last "
             "step, the slow modules, the last spans, memory and CPU, and the last stacks of its "
             "threads.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct report_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .run = run,
};
