/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/top_session.h"

static const struct gsp_opt OPTS[] = {
    GSP_OPT_PID_ROW(struct gsp_top_opts),
    {.name = "input",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct gsp_top_opts, input),
     .arg = "FILE",
     .help = "Replay a recording in time; with --once, its sums."},
    GSP_OPT_FROM(struct gsp_top_opts),
    GSP_OPTS_WHEN(struct gsp_top_opts, "Stop after this long: 30, 500ms, 5m, 1h."),
    {.name = "delay",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct gsp_top_opts, delay_ns),
     .arg = "SECONDS",
     .fallback = "1.0",
     .help = "Between two tables: the time that percentages are of."},
    GSP_OPT_SWITCH(struct gsp_top_opts, once, "once", 0, false,
                   "Print one table and end; needs no terminal."),
    {.name = "count",
     .letter = 'n',
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct gsp_top_opts, count),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .instead = "native",
     .help = "Print N tables and end; needs no terminal."},
    GSP_OPT_SWITCH(struct gsp_top_opts, json, "json", 0, false,
                   "For programs: each table an object on a line."),
    {.name = "sort",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct gsp_top_opts, sort),
     .arg = "BY",
     .choice = gsp_tui_top_column_name,
     .help = "The column to sort by. Default: own; total for --tree."},
    {.name = "filter",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct gsp_top_opts, filter),
     .arg = "TEXT",
     .help = "Only what has this text in its function or file."},
    {.name = "rows",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct gsp_top_opts, rows),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .advanced = true,
     .help = "Rows of a printed table. Default: 20; all for --json."},
    GSP_OPT_SWITCH(struct gsp_top_opts, mem, "mem", 0, false,
                   "Who holds the memory, by line, instead of the time."),
    GSP_OPT_SWITCH(struct gsp_top_opts, tree, "tree", 0, false,
                   "The call tree instead of the list."),
    GSP_OPT_SWITCH(struct gsp_top_opts, lines, "lines", 0, false,
                   "Each line of a function apart; without it lines are merged, as --function "
                   "does."),
    GSP_OPTS_WHOM(struct gsp_top_opts, "Only the thread that holds the GIL."),
    GSP_OPT_THREADS(struct gsp_top_opts),
    GSP_OPT_FUNCTION(struct gsp_top_opts),
    GSP_OPT_NOLINENO(struct gsp_top_opts),
    GSP_OPT_FULL_FILENAMES(struct gsp_top_opts),
    /* Native without its letter, which the number of tables has here. */
    GSP_OPTS_HOW(struct gsp_top_opts, 0),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof top --pid 4242", "What a process does, second by second"},
    {"gsprof top -- python3 train.py", "Run a program and watch it"},
    {"gsprof top -p 4242 --subprocesses --tree", "The call tree of a process and its workers"},
    {"gsprof top -p 4242 --once --json", "One second of it for a program to read"},
    {"gsprof top -p 4242 -n 60 --json --rows 5", "A minute, a line of JSON each second"},
    {"gsprof top --input profile.gsp", "Play a recording again"},
    {"gsprof top --mem -p 4242", "Who holds its memory, and what grows"},
};

static const char *misuse_of(const struct gsp_top_opts *opts, const struct gsp_parsed *parsed)
{
    int ways = (opts->pid != 0) + (parsed->arg_count > 0) + (opts->input != NULL);
    if (ways == 0)
        return "top needs a process, a program or a recording: PID, -- COMMAND, "
               "or --input FILE";
    if (ways > 1)
        return "only one of a process, a program and --input";
    if (opts->once && opts->count)
        return "--once is one table; -n is a number of them";
    if (opts->filter && strlen(opts->filter) >= GSP_TOP_FILTER_MAX)
        return "the text of --filter is too long";
    if (opts->from && !opts->input)
        return "--from is for --input";
    if (opts->mem && !opts->pid)
        return "--mem is of a process that runs: PID";
    return NULL;
}

static void set_query(struct gsp_top_session *session)
{
    const struct gsp_top_opts *opts = session->opts;
    struct gsp_top_query *query = &session->ui.query;
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
        return gsp_cli_misuse(parsed, "%s", misuse);
    struct gsp_err err = {0};
    if (gsp_sampling_check(&opts->sampling, &err) != GSP_OK)
        return gsp_cli_misuse(parsed, "%s", err.msg);
    struct gsp_top_session session = {.parsed = parsed,
                                      .opts = opts,
                                      .pid = (pid_t)opts->pid,
                                      .is_printed = opts->once || opts->count || opts->json,
                                      .launch = {.gate = -1, .report = -1},
                                      .child_output = -1};
    gsp_term_init(&session.term, STDERR_FILENO, parsed->globals.color);
    gsp_tui_ui_init(&session.ui, opts->input != NULL);
    if (opts->pid && (opts->mem || (!opts->sampling.subprocesses && !opts->sampling.native)))
        gsp_await_python(session.pid, opts->sampling.subprocesses, parsed);
    set_query(&session);
    int status = opts->mem     ? gsp_top_run_mem(&session)
                 : opts->input ? gsp_top_run_replay(&session)
                               : gsp_top_run_live(&session);
    gsp_tui_rows_free(&session.rows);
    gsp_tui_ui_free(&session.ui);
    gsp_tui_top_free(session.top);
    gsp_model_profile_free(session.profile);
    return status;
}

const struct gsp_command gsp_cmd_top = {
    .name = "top",
    .summary = "Watch where a process spends its time, live",
    .synopsis = "[OPTIONS] (PID | -- COMMAND... | --input FILE)",
    .about =
        "A table of functions that is made anew each second, with a header for the GIL, threads, "
        "processes, losses and the machine. Percentages are of the last interval, and of one "
        "thread: 100 % is one thread all the time. Times are sums since the beginning or the last "
        "reset. The keys are on the screen; ? explains them: sort (1-4, < >), pause (space), "
        "filter by text (/), by thread (t), by process (p), lines (l), tree (v), fold (Enter), "
        "reset (r), quit (q).\n"
        "A COMMAND has its output kept until the view is left, and no input; its exit status is "
        "passed through. With --input a recording is played: space pauses, left and right move "
        "by 5 seconds, Home goes to its beginning.\n"
        "With --mem the process counts its allocations while it is watched (as gsprof mem record "
        "has it do); 1, 2 and 3 sort by what is held, by growth, by what is allocated.\n"
        "--once, -n and --json print to stdout and need no terminal; --json alone goes on until "
        "the target ends.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct gsp_top_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .takes_program = true,
    .run = run,
};
