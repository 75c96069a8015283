/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/top_view.h"

static const struct gsp_opt OPTS[] = {
    GSP_OPT_PID_ROW(struct gsp_top_opts),
    {.name = "input",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct gsp_top_opts, input),
     .arg = "FILE",
     .help = "Replay a recording; with --once, print its totals."},
    GSP_OPT_FROM(struct gsp_top_opts),
    GSP_OPTS_WHEN(struct gsp_top_opts, "Stop after this time: 30, 500ms, 5m, 1h.", "no limit"),
    {.name = "delay",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct gsp_top_opts, delay_ns),
     .arg = "SECONDS",
     .fallback = "1.0",
     .help = "Interval between updates. Percentages refer to it."},
    GSP_OPT_SWITCH(struct gsp_top_opts, once, "once", 0, false,
                   "Print one table and exit; needs no terminal."),
    {.name = "count",
     .letter = 'n',
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct gsp_top_opts, count),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .instead = "native",
     .help = "Print N tables and exit; needs no terminal."},
    GSP_OPT_SWITCH(struct gsp_top_opts, json, "json", 0, false,
                   "Print each table as one line of JSON."),
    {.name = "sort",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct gsp_top_opts, sort),
     .arg = "BY",
     .choice = gsp_tui_top_column_name,
     .default_text = "own; with --tree, total",
     .help = "Column to sort by."},
    {.name = "filter",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct gsp_top_opts, filter),
     .arg = "TEXT",
     .help = "Show only functions and files that contain this text."},
    {.name = "rows",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct gsp_top_opts, rows),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .advanced = true,
     .default_text = "20; with --json, all",
     .help = "Rows of a printed table."},
    GSP_OPT_SWITCH(struct gsp_top_opts, mem, "mem", 0, false,
                   "Show memory by line instead of time."),
    GSP_OPT_SWITCH(struct gsp_top_opts, tree, "tree", 0, false,
                   "Show the call tree instead of a list."),
    GSP_OPT_SWITCH(struct gsp_top_opts, lines, "lines", 0, false,
                   "Show each line of a function separately."),
    GSP_OPTS_TARGETS(struct gsp_top_opts, "Sample only the thread that holds the GIL."),
    GSP_OPT_THREADS(struct gsp_top_opts),
    GSP_OPT_FUNCTION(struct gsp_top_opts),
    GSP_OPT_NOLINENO(struct gsp_top_opts),
    GSP_OPT_FULL_FILENAMES(struct gsp_top_opts),
    /* --native without -n, which is --count here. */
    GSP_OPTS_HOW(struct gsp_top_opts, 0),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof top --pid 4242", "Watch a running process"},
    {"gsprof top -- python3 train.py", "Run a program and watch it"},
    {"gsprof top -p 4242 --subprocesses --tree", "Show the call tree, including workers"},
    {"gsprof top -p 4242 --once --json", "Print one second as JSON"},
    {"gsprof top -p 4242 -n 60 --json --rows 5", "Print one line of JSON per second for a minute"},
    {"gsprof top --input profile.gsp", "Replay a recording"},
    {"gsprof top --mem -p 4242", "Show what holds its memory and what grows"},
};

static const char *misuse_of(const struct gsp_top_opts *opts, const struct gsp_parsed *parsed)
{
    int ways = (opts->pid != 0) + (parsed->arg_count > 0) + (opts->input != NULL);
    if (ways == 0)
        return "top needs a target: PID, -- COMMAND or --input FILE";
    if (ways > 1)
        return "PID, a command and --input exclude each other";
    if (opts->once && opts->count)
        return "--once and -n exclude each other";
    if (opts->filter && strlen(opts->filter) >= GSP_TOP_FILTER_MAX)
        return "the text of --filter is too long";
    if (opts->from && !opts->input)
        return "--from needs --input";
    if (opts->mem && !opts->pid)
        return "--mem needs a running process: PID";
    return NULL;
}

static void set_query(struct gsp_top_view *view)
{
    const struct gsp_top_opts *opts = view->opts;
    struct gsp_top_query *query = &view->ui.query;
    query->view = opts->view;
    query->view.by_function = opts->view.by_function || !opts->lines;
    query->tree = opts->tree;
    query->sort = opts->tree ? GSP_TOP_TOTAL_PCT : GSP_TOP_OWN_PCT;
    for (size_t i = 0; opts->sort && gsp_tui_top_column_name(i); i++)
        if (strcmp(gsp_tui_top_column_name(i), opts->sort) == 0)
            query->sort = (enum gsp_top_column)i;
    snprintf(query->filter, sizeof(query->filter), "%s", opts->filter ? opts->filter : "");
}

static int run(const struct gsp_parsed *parsed)
{
    const struct gsp_top_opts *opts = parsed->opts;
    const char *misuse = misuse_of(opts, parsed);
    if (misuse)
        return gsp_cli__misuse(parsed, "%s", misuse);
    struct gsp_err err = {0};
    if (gsp_cli__sampling_check(&opts->sampling, &err) != GSP_OK)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    struct gsp_top_view view = {.parsed = parsed,
                                .opts = opts,
                                .pid = (pid_t)opts->pid,
                                .is_printed = opts->once || opts->count || opts->json,
                                .launch = {.gate = -1, .report = -1},
                                .child_output = -1};
    gsp_cli__term_init(&view.term, STDERR_FILENO, parsed->globals.color);
    gsp_tui_ui_init(&view.ui, opts->input != NULL);
    if (opts->pid && (opts->mem || (!opts->sampling.subprocesses && !opts->sampling.native)))
        gsp_cli__await_python(view.pid, opts->sampling.subprocesses, parsed);
    set_query(&view);
    int status = opts->mem     ? gsp_cli__top_run_mem(&view)
                 : opts->input ? gsp_cli__top_run_replay(&view)
                               : gsp_cli__top_run_live(&view);
    gsp_tui_rows_free(&view.rows);
    gsp_tui_ui_free(&view.ui);
    gsp_tui_top_free(view.top);
    gsp_model_profile_free(view.profile);
    return status;
}

const struct gsp_command gsp_cmd_top = {
    .name = "top",
    .summary = "Show live where a process spends its time",
    .synopsis = "[OPTIONS] (PID | -- COMMAND... | --input FILE)",
    .about =
        "Shows a table of functions, updated every second, and a header with the GIL, threads, "
        "processes, losses and the machine. Percentages refer to the last interval and to one "
        "thread: 100 % is one thread all the time. Times are totals since the start or the last "
        "reset. The keys are shown on the screen, and ? explains them: sort (1-4, < >), pause "
        "(space), filter by text (/), by thread (t), by process (p), lines (l), tree (v), fold "
        "(Enter), reset (r), quit (q).\n"
        "A COMMAND gets no input. Its output is printed after you quit, and gsprof exits with its "
        "status. With --input, gsprof replays a recording: space pauses, left and right move by 5 "
        "seconds, Home goes to the start.\n"
        "With --mem, the process counts its allocations while you watch it, as with gsprof mem "
        "record; 1, 2 and 3 sort by live bytes, growth and allocated bytes.\n"
        "--once, -n and --json print to stdout and need no terminal; --json alone runs until the "
        "target exits.",
    GSP_COMMAND_OPTS(OPTS, struct gsp_top_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .takes_program = true,
    .run = run,
};
