/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/run_compare.h"

struct compare_opts {
    const char *format;
    const char *output;
    const char *per;
    struct gsp_opt_list fail_if;
    int64_t top;
    int64_t warmup;
    bool no_significance;
    bool force;
};

static const char *const PER[] = {[GSP_PER_AUTO] = "auto",
                                  [GSP_PER_STEP] = "step",
                                  [GSP_PER_RUN] = "run",
                                  [GSP_PER_SHARE] = "share"};

static const char *per_choice(size_t i)
{
    return i < GSP_COUNT(PER) ? PER[i] : NULL;
}

static const struct gsp_opt OPTS[] = {
    {.name = "fail-if",
     .kind = GSP_OPT_LIST,
     .offset = offsetof(struct compare_opts, fail_if),
     .arg = "RULE",
     .help = "Exit with status 1 if the rule matches: 'step_time > 5%', 'peak_rss > 2GB', "
             "'module:layers.* > 10%', 'function:load > +5ms'. A percentage is a relative change, "
             "a number with a sign an absolute change, a number without a sign the value of B. "
             "Repeatable."},
    GSP_OPT_SWITCH(struct compare_opts, no_significance, "no-significance", 0, false,
                   "Let rules match differences that may be chance."),
    {.name = "format",
     .letter = 'f',
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct compare_opts, format),
     .arg = "NAME",
     .choice = gsp_cli__compare_format,
     .default_text = "from the extension of --output, else text",
     .help = "Output format: text, html, json, md or svg."},
    GSP_OPT_OUTPUT(struct compare_opts, "Write to a file instead of stdout."),
    GSP_OPT_FORCE(struct compare_opts),
    {.name = "top",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct compare_opts, top),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .default_text = "15",
     .help = "Rows of each table in text and Markdown."},
    {.name = "warmup",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct compare_opts, warmup),
     .arg = "N",
     .fallback = "-1",
     .default_text = "steps far slower than the others",
     .min = -1,
     .max = 1e9,
     .help = "Number of steps to skip at the start of each run.",
     .advanced = true},
    {.name = "per",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct compare_opts, per),
     .arg = "WHAT",
     .fallback = "auto",
     .help = "How to express the time of functions: per step, per run, or as a share of it. auto "
             "is per step if both sides have steps.",
     .choice = per_choice,
     .advanced = true},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof compare gsprof-runs/base gsprof-runs/new", "Show what changed and how certain it is"},
    {"gsprof compare gsprof-runs/base gsprof-runs/new --fail-if 'step_time > 5%'",
     "In CI: fail if steps are significantly more than 5 % slower"},
    {"gsprof compare a1,a2,a3,a4 b1,b2,b3,b4 --fail-if 'peak_rss > 5%'",
     "Compare four runs of each side to account for run-to-run variation"},
    {"gsprof compare before.gsp after.gsp -o diff.svg", "Draw a differential flame graph"},
    {"gsprof compare a.json b.json -o compare.html",
     "Write a comparison of two sessions as a page"},
};

static int run(const struct gsp_parsed *parsed)
{
    const struct compare_opts *opts = parsed->opts;
    size_t per = 0;
    while (per + 1 < GSP_COUNT(PER) && strcmp(PER[per], opts->per) != 0)
        per++;
    const struct gsp_cli_compare_opts how = {.path = {parsed->args[0], parsed->args[1]},
                                             .format = opts->format,
                                             .output = opts->output,
                                             .rules = opts->fail_if.at,
                                             .rule_count = opts->fail_if.count,
                                             .limit = (size_t)opts->top,
                                             .warmup = opts->warmup,
                                             .per = (enum gsp_compare_per)per,
                                             .any_change = opts->no_significance,
                                             .force = opts->force};
    const bool is_page = opts->format && strcmp(opts->format, "html") == 0;
    if (is_page && !opts->output && isatty(STDOUT_FILENO))
        return gsp_cli__misuse(parsed, "the format html needs a file: -o compare.html");
    return gsp_cli__compare(parsed, &how);
}

const struct gsp_command gsp_cmd_compare = {
    .name = "compare",
    .summary = "Compare two runs, sessions or profiles statistically",
    .synopsis = "A B [--fail-if RULE]... [OPTIONS]",
    .about =
        "Shows how B differs from A in step time, throughput, memory, CPU, GPU, energy, every "
        "chart, modules and functions. Each row has the change, its 95 % confidence interval, and "
        "whether B is better, worse, not significantly different, or unknown because there are "
        "too few values.\n"
        "Each side may be a comma-separated list of at least four recordings. Each recording is "
        "then one value, so that run-to-run variation does not count as a difference.\n"
        "With --fail-if, the exit status is 1 if a rule matches a significant difference. The same "
        "recordings always give the same result. docs/compare.md explains the statistics.",
    GSP_COMMAND_OPTS(OPTS, struct compare_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 2,
    .args_max = 2,
    .run = run,
};
