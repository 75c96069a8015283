/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/compare.h"

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
     .help = "Exit with status 1 if this is so, more than once: 'step_time > 5%', "
             "'peak_rss > 2GB', 'module:layers.* > 10%', 'function:load > +5ms'. A % is a change, "
             "a number with a sign a change in the metric's unit, one without the value of B."},
    GSP_OPT_SWITCH(struct compare_opts, no_significance, "no-significance", 0, false,
                   "Rules fail by the bare numbers, also by what may be chance."),
    {.name = "format",
     .letter = 'f',
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct compare_opts, format),
     .arg = "NAME",
     .choice = gsp_cli_compare_format,
     .help = "text, html, json, md or svg; without it the extension of the output tells."},
    GSP_OPT_OUTPUT(struct compare_opts, "Write to a file instead of stdout."),
    GSP_OPT_FORCE(struct compare_opts),
    {.name = "top",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct compare_opts, top),
     .arg = "N",
     .min = 1,
     .max = 1e9,
     .help = "Rows of each table of text and Markdown. Default: 15."},
    {.name = "warmup",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct compare_opts, warmup),
     .arg = "N",
     .fallback = "-1",
     .min = -1,
     .max = 1e9,
     .help = "Steps to leave out at the start of each run; -1: those that are far slower than "
             "the others.",
     .advanced = true},
    {.name = "per",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct compare_opts, per),
     .arg = "WHAT",
     .fallback = "auto",
     .help = "What the time of functions is of: a step, the whole run, or a share of it. auto: a "
             "step if both have steps.",
     .choice = per_choice,
     .advanced = true},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof compare gsprof-runs/base gsprof-runs/new", "What changed, and how surely"},
    {"gsprof compare gsprof-runs/base gsprof-runs/new --fail-if 'step_time > 5%'",
     "In CI: status 1 if a step is more than 5 % slower, and that is no chance"},
    {"gsprof compare a1,a2,a3,a4 b1,b2,b3,b4 --fail-if 'peak_rss > 5%'",
     "Four runs of each: what differs from run to run is no difference"},
    {"gsprof compare before.gsp after.gsp -o diff.svg", "A differential flame graph"},
    {"gsprof compare a.json b.json -o compare.html", "Two sessions as a page"},
};

static int run(const struct gsp_parsed *parsed)
{
    const struct compare_opts *opts = parsed->opts;
    size_t per = 0;
    while (per + 1 < GSP_COUNT(PER) && strcmp(PER[per], opts->per) != 0)
        per++;
    const struct gsp_cli_comparing how = {.path = {parsed->args[0], parsed->args[1]},
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
        return gsp_cli_misuse(parsed, "a page goes to a file: -o compare.html");
    return gsp_cli_compare(parsed, &how);
}

const struct gsp_command gsp_cmd_compare = {
    .name = "compare",
    .summary = "Compare two runs, sessions or profiles, and say what is chance",
    .synopsis = "A B [--fail-if RULE]... [OPTIONS]",
    .about =
        "Tells how B differs from A: step time, throughput, memory, CPU, GPU, energy, every "
        "chart, modules and functions, each with the change, an interval that holds the "
        "truth with 95 % confidence, and whether it is better, worse, the same as far as can "
        "be told, or unknown for want of values.\n"
        "A side may be several recordings with commas between: each is then one value, and what two "
        "recordings of the same program differ by is no difference; four on each side are "
        "the least.\n"
        "With --fail-if the exit status is 1 when a rule is broken by a difference that is "
        "not chance. The same two recordings always give the same answer. "
        "docs/compare.md explains the statistics.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct compare_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .args_min = 2,
    .args_max = 2,
    .run = run,
};
