/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/rows_out.h"
#include "cli/term.h"
#include "compare/memory.h"
#include "export/pprof_heap.h"
#include "report/document_write.h"
#include "report/memory_view.h"

#define TEXT_ROWS 20U

enum form {
    FORM_TEXT,
    FORM_JSON,
    FORM_CSV,
    FORM_CSV_RAW,
    FORM_HTML,
    FORM_MARKDOWN,
    FORM_SVG,
    FORM_PPROF,
    FORM_FOLDED,
    FORMS
};

struct mem_report_opts {
    const char *at;
    const char *diff;
    const char *by;
    const char *format;
    const char *output;
    int64_t limit;
    struct gsp_view_options view;
    bool peak;
    bool leaks;
    bool temporary;
    bool timeline;
    bool force;
};

static const char *form_name(size_t i)
{
    static const char *const names[FORMS] = {
        [FORM_TEXT] = "text",   [FORM_JSON] = "json",     [FORM_CSV] = "csv",
        [FORM_HTML] = "html",   [FORM_MARKDOWN] = "md",   [FORM_SVG] = "svg",
        [FORM_PPROF] = "pprof", [FORM_FOLDED] = "folded", [FORM_CSV_RAW] = "csv-raw"};
    return i < FORMS ? names[i] : NULL;
}

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct mem_report_opts, peak, "peak", 0, false,
                   "Show live memory at the peak. This is the default."),
    GSP_OPT_SWITCH(struct mem_report_opts, leaks, "leaks", 0, false,
                   "Show memory that keeps growing after warm-up, by a trend test, fastest first. "
                   "Caches that fill up and garbage that is collected are not listed."),
    GSP_OPT_SWITCH(struct mem_report_opts, temporary, "temporary", 0, false,
                   "Show memory allocated and freed between two snapshots."),
    {.name = "at",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_report_opts, at),
     .arg = "TIME",
     .help = "Show live memory at this time since the start: 30s, 5m, or end."},
    {.name = "diff",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_report_opts, diff),
     .arg = "TIME,TIME",
     .help = "Show growth between two times. To compare two recordings, give two FILEs instead."},
    GSP_OPT_SWITCH(struct mem_report_opts, timeline, "timeline", 0, false,
                   "Show resident, live, Python and device memory of each snapshot, as a table, "
                   "csv or json."),
    {.name = "by",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct mem_report_opts, by),
     .arg = "WHAT",
     .choice = gsp_memlog_group_by_name,
     .fallback = "line",
     .help = "Group rows by line, function, module, thread, process or allocator."},
    {.name = "format",
     .letter = 'f',
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct mem_report_opts, format),
     .arg = "NAME",
     .choice = form_name,
     .default_text = "from the extension of --output, else text",
     .help = "Output format: text, md, json, csv, csv-raw (text that a spreadsheet "
             "takes for a formula is not quoted), html, or stacks as svg (flame graph), pprof or "
             "folded."},
    GSP_OPT_OUTPUT(struct mem_report_opts, "Write to a file instead of stdout."),
    GSP_OPT_FORCE(struct mem_report_opts),
    {.name = "limit",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct mem_report_opts, limit),
     .arg = "N",
     .fallback = "-1",
     .min = -1,
     .max = 1e9,
     .default_text = "20 for text and md, 1000 for html, else no limit",
     .help = "Maximum number of rows; 0 for all."},
    GSP_OPT_THREADS(struct mem_report_opts),
    GSP_OPT_FUNCTION(struct mem_report_opts),
    GSP_OPT_NOLINENO(struct mem_report_opts),
    GSP_OPT_FULL_FILENAMES(struct mem_report_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof mem report train.gspm", "Show live memory at the peak by line"},
    {"gsprof mem report --leaks train.gspm", "Show what keeps growing"},
    {"gsprof mem report train.gspm -o peak.svg", "Draw the peak as a flame graph"},
    {"gsprof mem report --diff 10s,5m --by function train.gspm", "Show growth between two times"},
    {"gsprof mem report before.gspm after.gspm", "Compare two recordings"},
    {"gsprof mem report --timeline -f csv train.gspm", "Print resident and live bytes over time"},
};

struct state {
    const struct gsp_parsed *parsed;
    const struct mem_report_opts *opts;
    struct gsp_memory_view reports[2];
    enum form form;
    const char *faulty; /* the file an error refers to */
};

/* ------------------------------------------------------------------------------------------ view
 */

static const char *misuse_of(const struct mem_report_opts *opts, size_t files)
{
    const int views = opts->peak + opts->leaks + opts->temporary + (opts->at != NULL) +
                      (opts->diff != NULL) + opts->timeline;
    if (views > 1)
        return "--peak, --leaks, --temporary, --at, --diff and --timeline exclude each other";
    if (files > 1 && (opts->diff || opts->leaks || opts->timeline))
        return "--diff, --leaks and --timeline do not apply to two recordings";
    return NULL;
}

/* From --format, else from the extension of the output; FORMS if neither determines it. */
static enum form form_of(const struct mem_report_opts *opts)
{
    static const struct {
        const char *extension;
        enum form form;
    } extensions[] = {{".txt", FORM_TEXT},      {".json", FORM_JSON},       {".csv", FORM_CSV},
                      {".html", FORM_HTML},     {".md", FORM_MARKDOWN},     {".svg", FORM_SVG},
                      {".pb.gz", FORM_PPROF},   {".pprof", FORM_PPROF},     {".pb", FORM_PPROF},
                      {".folded", FORM_FOLDED}, {".collapsed", FORM_FOLDED}};
    for (size_t i = 0; opts->format && i < FORMS; i++)
        if (strcmp(form_name(i), opts->format) == 0)
            return (enum form)i;
    if (!opts->output || strcmp(opts->output, "-") == 0)
        return FORM_TEXT;
    for (size_t i = 0; i < GSP_COUNT(extensions); i++)
        if (gsp_sv_ends(gsp_sv_of(opts->output), extensions[i].extension))
            return extensions[i].form;
    return FORMS;
}

static int read_time(const struct gsp_memlog *log, struct gsp_sv text, int64_t *out,
                     struct gsp_err *err)
{
    char word[64];
    snprintf(word, sizeof(word), "%.*s", (int)(text.len < 60 ? text.len : 60), text.p);
    if (strcmp(word, "end") != 0)
        return gsp_parse_duration(word, out, err);
    *out = gsp_memlog_end_ns(log);
    return GSP_OK;
}

static int set_question(const struct mem_report_opts *opts, struct gsp_memory_view *report,
                        struct gsp_err *err)
{
    struct gsp_memlog_view_spec *question = &report->question;
    *question = (struct gsp_memlog_view_spec){.view = GSP_MEMVIEW_PEAK};
    if (opts->leaks)
        question->view = GSP_MEMVIEW_LEAKS;
    if (opts->temporary)
        question->view = GSP_MEMVIEW_TEMPORARY;
    if (opts->at) {
        question->view = GSP_MEMVIEW_AT;
        return read_time(report->log, gsp_sv_of(opts->at), &question->to_ns, err);
    }
    if (!opts->diff)
        return GSP_OK;
    struct gsp_sv rest = gsp_sv_of(opts->diff);
    struct gsp_sv from = {0};
    struct gsp_sv to = {0};
    question->view = GSP_MEMVIEW_DIFF;
    if (!gsp_sv_split(&rest, ',', &from) || !gsp_sv_split(&rest, ',', &to) || rest.p)
        return gsp_err_set(err, GSP_E_USAGE, 0, "--diff needs two times: --diff 10s,5m");
    int rc = read_time(report->log, from, &question->from_ns, err);
    return rc == GSP_OK ? read_time(report->log, to, &question->to_ns, err) : rc;
}

static int open_view(struct state *state, size_t i, struct gsp_err *err)
{
    const struct mem_report_opts *opts = state->opts;
    struct gsp_memory_view *report = &state->reports[i];
    enum gsp_memlog_group_by by = GSP_MEMBY_LINE;
    state->faulty = state->parsed->args[i];
    for (size_t k = 0; opts->by && gsp_memlog_group_by_name(k); k++)
        if (strcmp(gsp_memlog_group_by_name(k), opts->by) == 0)
            by = (enum gsp_memlog_group_by)k;
    const bool is_text = state->form == FORM_TEXT || state->form == FORM_MARKDOWN;
    report->limit = is_text ? TEXT_ROWS : 0;
    if (state->form == FORM_HTML)
        report->limit = GSP_MEMORY_SITES_DEFAULT;
    if (opts->limit >= 0)
        report->limit = (size_t)opts->limit;
    struct gsp_term term;
    gsp_cli__term_init(&term, STDOUT_FILENO, state->parsed->globals.color);
    report->width = term.is_tty ? term.width : 0;
    int rc = gsp_report_memory_open(report, state->parsed->args[i], by, err);
    if (rc == GSP_OK)
        rc = set_question(opts, report, err);
    return rc == GSP_OK ? gsp_report_memory_select(report, err) : rc;
}

/* --------------------------------------------------------------------------------------- formats
 */

static int put_rows(const struct state *state, struct gsp_row_list *row_list, struct gsp_err *err)
{
    static const enum gsp_rows_format formats[FORMS] = {[FORM_TEXT] = GSP_ROWS_TABLE,
                                                        [FORM_JSON] = GSP_ROWS_JSON,
                                                        [FORM_CSV] = GSP_ROWS_CSV,
                                                        [FORM_CSV_RAW] = GSP_ROWS_CSV_RAW};
    const struct gsp_rows_dest dest = {.format = formats[state->form],
                                       .path = state->opts->output,
                                       .color = state->parsed->globals.color,
                                       .force = state->opts->force};
    int rc = gsp_cli__put_rows(gsp_model_row_list_rows(row_list), &dest, err);
    gsp_rows_free(gsp_model_row_list_rows(row_list));
    return rc;
}

/* Writes live and allocated bytes, like a heap profile of pprof. */
static int write_heap(const struct state *state, struct gsp_out *out, struct gsp_err *err)
{
    const struct gsp_memory_view *report = &state->reports[0];
    struct gsp_total *allocated = NULL;
    int rc = gsp_memlog_values_fill_heap(&report->values, report->log, &allocated, err);
    if (rc == GSP_OK)
        rc = gsp_export_pprof_write_heap(gsp_memlog_profile(report->log), allocated,
                                         &state->opts->view, out, err);
    free(allocated);
    return rc;
}

/* The page and Markdown, which are forms of the report document. */
static int put_document(const struct state *state, enum gsp_report_format format,
                        struct gsp_err *err)
{
    const struct gsp_memory_view *report = &state->reports[0];
    const struct gsp_report_write_opts how = {.limit = report->limit};
    struct gsp_report *document = NULL;
    gsp_auto_buf text = {0};
    int rc = gsp_report_memory_document(report, &document, err);
    if (rc == GSP_OK)
        rc = gsp_report_write(document, format, &how, &text, err);
    if (rc == GSP_OK)
        rc = gsp_file_put(state->opts->output, state->opts->force, &text, err);
    gsp_report_free(document);
    return rc;
}

static int put_heap(const struct state *state, struct gsp_err *err)
{
    const struct mem_report_opts *opts = state->opts;
    struct gsp_newfile file = {.fd = -1};
    struct gsp_out out;
    int rc = gsp_newfile_open(&file, opts->output ? opts->output : "-", opts->force, err);
    if (rc < 0)
        return rc;
    gsp_out_init(&out, file.fd);
    rc = write_heap(state, &out, err);
    int end = gsp_out_finish(&out, rc == GSP_OK ? err : NULL);
    rc = rc < 0 ? rc : end;
    if (rc == GSP_OK)
        rc = gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}

static int put_stacks(const struct state *state, struct gsp_err *err)
{
    const struct mem_report_opts *opts = state->opts;
    const struct gsp_memory_view *report = &state->reports[0];
    if (state->form == FORM_PPROF)
        return put_heap(state, err);
    int rc = gsp_memlog_values_fill(&report->values, report->log, err);
    if (rc < 0)
        return rc;
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    const struct gsp_format *format = gsp_export_format_find(form_name(state->form));
    if (gsp_model_profile_total_count(profile) == 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0, "%.180s has no such memory", report->path);
    return gsp_export_format_save(opts->output ? opts->output : "-", format, profile, &opts->view,
                                  opts->force, err);
}

static int put_view(const struct state *state, struct gsp_err *err)
{
    const struct gsp_memory_view *report = &state->reports[0];
    struct gsp_row_list *row_list = NULL;
    gsp_auto_buf text = {0};
    int rc = GSP_OK;
    if (state->opts->timeline) {
        rc = gsp_report_memory_timeline(report, &row_list, err);
        return rc == GSP_OK ? put_rows(state, row_list, err) : rc;
    }
    if (state->form == FORM_CSV || state->form == FORM_CSV_RAW) {
        rc = gsp_report_memory_rows(report, &row_list, err);
        return rc == GSP_OK ? put_rows(state, row_list, err) : rc;
    }
    if (state->form == FORM_HTML || state->form == FORM_MARKDOWN)
        return put_document(state, state->form == FORM_HTML ? GSP_REPORT_HTML : GSP_REPORT_MARKDOWN,
                            err);
    if (state->form != FORM_TEXT && state->form != FORM_JSON)
        return put_stacks(state, err);
    if (state->form == FORM_TEXT)
        gsp_report_memory_text(report, &text);
    else
        gsp_report_memory_json(report, &text);
    return gsp_file_put(state->opts->output, state->opts->force, &text, err);
}

static int put_comparison(const struct state *state, struct gsp_err *err)
{
    struct gsp_memory_comparison comparison;
    struct gsp_row_list *row_list = NULL;
    gsp_auto_buf text = {0};
    int rc = gsp_compare_memory_make(&comparison, &state->reports[0], &state->reports[1], err);
    if (rc == GSP_OK && state->form == FORM_TEXT) {
        gsp_compare_memory_text(&comparison, &state->reports[1], &text);
        rc = gsp_file_put(state->opts->output, state->opts->force, &text, err);
    } else if (rc == GSP_OK) {
        rc = gsp_compare_memory_rows(&comparison, &row_list, err);
        rc = rc == GSP_OK ? put_rows(state, row_list, err) : rc;
    }
    gsp_compare_memory_free(&comparison);
    return rc;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct mem_report_opts *opts = parsed->opts;
    struct state state = {.parsed = parsed, .opts = opts, .form = form_of(opts)};
    struct gsp_err err = {0};
    const char *misuse = misuse_of(opts, parsed->arg_count);
    if (misuse)
        return gsp_cli__misuse(parsed, "%s", misuse);
    if (state.form == FORMS)
        return gsp_cli__misuse(parsed, "the extension of %.100s is unknown: --format NAME",
                               opts->output);
    if ((parsed->arg_count > 1 || opts->timeline) && state.form > FORM_CSV_RAW)
        return gsp_cli__misuse(parsed, "the format of %s is text, csv or json",
                               opts->timeline ? "a timeline" : "a comparison");
    int rc = opts->output ? gsp_file_check_new(opts->output, opts->force, &err) : GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < parsed->arg_count; i++)
        rc = open_view(&state, i, &err);
    if (rc == GSP_OK)
        rc = parsed->arg_count > 1 ? put_comparison(&state, &err) : put_view(&state, &err);
    for (size_t i = 0; i < GSP_COUNT(state.reports); i++)
        gsp_report_memory_close(&state.reports[i]);
    if (rc == GSP_E_USAGE)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    const bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
    if (rc < 0)
        return gsp_cli__fail(
            parsed, &(struct gsp_hint_context){.path = is_output ? opts->output : state.faulty},
            &err);
    return 0;
}

const struct gsp_command gsp_cmd_mem_report = {
    .name = "mem-report",
    .title = "mem report",
    .summary = "Report a memory recording: peak, leaks, churn, differences",
    .synopsis = "[OPTIONS] FILE [FILE]",
    .about = "Reads a file written by `gsprof mem record`, even if it is truncated. Amounts are "
             "bytes requested by the program. If allocations were sampled, amounts are estimates, "
             "and the next column is twice their standard error.\n"
             "A row is the innermost Python line of a stack. If it belongs to a library, the "
             "calling line of the program follows.",
    GSP_COMMAND_OPTS(OPTS, struct mem_report_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 1,
    .args_max = 2,
    .lesser = true,
    .run = run,
};
