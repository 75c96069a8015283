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
#include "report/memory_view.h"
#include "report/write.h"

#define ROWS_FOR_PEOPLE  20U
#define STACKS_OF_A_PAGE 1000U

enum form {
    FORM_TEXT,
    FORM_JSON,
    FORM_CSV,
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
        [FORM_TEXT] = "text",   [FORM_JSON] = "json",    [FORM_CSV] = "csv",
        [FORM_HTML] = "html",   [FORM_MARKDOWN] = "md",  [FORM_SVG] = "svg",
        [FORM_PPROF] = "pprof", [FORM_FOLDED] = "folded"};
    return i < FORMS ? names[i] : NULL;
}

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct mem_report_opts, peak, "peak", 0, false,
                   "What was held when a process held the most; this is the default."),
    GSP_OPT_SWITCH(struct mem_report_opts, leaks, "leaks", 0, false,
                   "What keeps growing after warm-up, by a test of its trend, the fastest first. "
                   "Caches that fill up and garbage that is collected are not accused."),
    GSP_OPT_SWITCH(struct mem_report_opts, temporary, "temporary", 0, false,
                   "What was allocated and freed again between two looks."),
    {.name = "at",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_report_opts, at),
     .arg = "TIME",
     .help = "What was held then: 30s, 5m since the recording began, or end."},
    {.name = "diff",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_report_opts, diff),
     .arg = "TIME,TIME",
     .help = "What grew from one time to the other. Two FILEs: from the one to the other, of "
             "whatever view."},
    GSP_OPT_SWITCH(struct mem_report_opts, timeline, "timeline", 0, false,
                   "Resident, live, Python's and device memory look by look, as csv, json or a "
                   "table."),
    {.name = "by",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct mem_report_opts, by),
     .arg = "WHAT",
     .choice = gsp_memlog_group_by_name,
     .fallback = "line",
     .help = "What makes one row: line, function, module, thread, process, allocator."},
    {.name = "format",
     .letter = 'f',
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct mem_report_opts, format),
     .arg = "NAME",
     .choice = form_name,
     .help = "text, json, csv, html, or the stacks as svg (a flame graph), pprof, folded; without "
             "it the extension of the output tells."},
    GSP_OPT_OUTPUT(struct mem_report_opts, "The file to write; without it stdout."),
    GSP_OPT_FORCE(struct mem_report_opts),
    {.name = "limit",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct mem_report_opts, limit),
     .arg = "N",
     .fallback = "-1",
     .min = -1,
     .max = 1e9,
     .help = "Rows at most; 0 is all. Without it (-1) text has 20, and csv and json all."},
    GSP_OPT_THREADS(struct mem_report_opts),
    GSP_OPT_FUNCTION(struct mem_report_opts),
    GSP_OPT_NOLINENO(struct mem_report_opts),
    GSP_OPT_FULL_FILENAMES(struct mem_report_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof mem report train.gspm", "What was held at the peak, by line"},
    {"gsprof mem report --leaks train.gspm", "What keeps growing"},
    {"gsprof mem report train.gspm -o peak.svg", "The peak as a flame graph"},
    {"gsprof mem report --diff 10s,5m --by function train.gspm", "What grew between two times"},
    {"gsprof mem report before.gspm after.gspm", "Two runs"},
    {"gsprof mem report --timeline -f csv train.gspm", "Resident and live bytes over time"},
};

struct session {
    const struct gsp_parsed *parsed;
    const struct mem_report_opts *opts;
    struct gsp_memreport reports[2];
    enum form form;
    const char *faulty; /* the file an error refers to */
};

/* ------------------------------------------------------------------------------------------ view */

static const char *misuse_of(const struct mem_report_opts *opts, size_t files)
{
    const int views = opts->peak + opts->leaks + opts->temporary + (opts->at != NULL) +
                      (opts->diff != NULL) + opts->timeline;
    if (views > 1)
        return "only one of --peak, --leaks, --temporary, --at, --diff and --timeline";
    if (files > 1 && (opts->diff || opts->leaks || opts->timeline))
        return "two recordings are compared by --peak, --temporary or --at";
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

static int set_question(const struct mem_report_opts *opts, struct gsp_memreport *report,
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
        return gsp_err_set(err, GSP_E_USAGE, 0, "--diff is two times: --diff 10s,5m");
    int rc = read_time(report->log, from, &question->from_ns, err);
    return rc == GSP_OK ? read_time(report->log, to, &question->to_ns, err) : rc;
}

static int ask(struct session *session, size_t i, struct gsp_err *err)
{
    const struct mem_report_opts *opts = session->opts;
    struct gsp_memreport *report = &session->reports[i];
    enum gsp_memlog_group_by by = GSP_MEMBY_LINE;
    session->faulty = session->parsed->args[i];
    for (size_t k = 0; opts->by && gsp_memlog_group_by_name(k); k++)
        if (strcmp(gsp_memlog_group_by_name(k), opts->by) == 0)
            by = (enum gsp_memlog_group_by)k;
    const bool is_text = session->form == FORM_TEXT || session->form == FORM_MARKDOWN;
    report->limit = is_text ? ROWS_FOR_PEOPLE : 0;
    if (session->form == FORM_HTML)
        report->limit = STACKS_OF_A_PAGE;
    if (opts->limit >= 0)
        report->limit = (size_t)opts->limit;
    struct gsp_term term;
    gsp_term_init(&term, STDOUT_FILENO, session->parsed->globals.color);
    report->width = term.is_tty ? term.width : 0;
    int rc = gsp_memreport_open(report, session->parsed->args[i], by, err);
    if (rc == GSP_OK)
        rc = set_question(opts, report, err);
    return rc == GSP_OK ? gsp_memreport_ask(report, err) : rc;
}

/* --------------------------------------------------------------------------------------- formats */

static int put_rows(const struct session *session, struct gsp_made_rows *made, struct gsp_err *err)
{
    static const enum gsp_rows_format formats[FORMS] = {
        [FORM_TEXT] = GSP_ROWS_TABLE, [FORM_JSON] = GSP_ROWS_JSON, [FORM_CSV] = GSP_ROWS_CSV};
    const struct gsp_rows_dest dest = {.format = formats[session->form],
                                       .path = session->opts->output,
                                       .color = session->parsed->globals.color,
                                       .force = session->opts->force};
    int rc = gsp_cli_put_rows(gsp_made_rows_get(made), &dest, err);
    gsp_rows_free(gsp_made_rows_get(made));
    return rc;
}

/* Writes live and allocated bytes, like a heap profile of pprof. */
static int write_heap(const struct session *session, struct gsp_out *out, struct gsp_err *err)
{
    const struct gsp_memreport *report = &session->reports[0];
    struct gsp_total *allocated = NULL;
    int rc = gsp_memlog_values_fill_heap(&report->values, report->log, &allocated, err);
    if (rc == GSP_OK)
        rc = gsp_export_pprof_write_heap(gsp_memlog_profile(report->log), allocated,
                                         &session->opts->view, out, err);
    free(allocated);
    return rc;
}

/* The page and Markdown, which are forms of the report document. */
static int put_document(const struct session *session, enum gsp_digest_format format,
                        struct gsp_err *err)
{
    const struct gsp_memreport *report = &session->reports[0];
    const struct gsp_report_write_opts how = {.limit = report->limit};
    struct gsp_digest *digest = NULL;
    gsp_auto_buf text = {0};
    int rc = gsp_memreport_document(report, &digest, err);
    if (rc == GSP_OK)
        rc = gsp_digest_write(digest, format, &how, &text, err);
    if (rc == GSP_OK)
        rc = gsp_file_put(session->opts->output, session->opts->force, &text, err);
    gsp_digest_free(digest);
    return rc;
}

static int put_heap(const struct session *session, struct gsp_err *err)
{
    const struct mem_report_opts *opts = session->opts;
    struct gsp_newfile file = {.fd = -1};
    struct gsp_out out;
    int rc = gsp_newfile_open(&file, opts->output ? opts->output : "-", opts->force, err);
    if (rc < 0)
        return rc;
    gsp_out_init(&out, file.fd);
    rc = write_heap(session, &out, err);
    int end = gsp_out_finish(&out, rc == GSP_OK ? err : NULL);
    rc = rc < 0 ? rc : end;
    if (rc == GSP_OK)
        rc = gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}

static int put_stacks(const struct session *session, struct gsp_err *err)
{
    const struct mem_report_opts *opts = session->opts;
    const struct gsp_memreport *report = &session->reports[0];
    if (session->form == FORM_PPROF)
        return put_heap(session, err);
    int rc = gsp_memlog_values_fill(&report->values, report->log, err);
    if (rc < 0)
        return rc;
    const struct gsp_profile *profile = gsp_memlog_profile(report->log);
    const struct gsp_format *format = gsp_export_format_find(form_name(session->form));
    if (gsp_model_profile_total_count(profile) == 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0, "there is nothing of that in %.180s", report->path);
    return gsp_export_format_save(opts->output ? opts->output : "-", format, profile, &opts->view,
                                  opts->force, err);
}

static int put_one(const struct session *session, struct gsp_err *err)
{
    const struct gsp_memreport *report = &session->reports[0];
    struct gsp_made_rows *made = NULL;
    gsp_auto_buf text = {0};
    int rc = GSP_OK;
    if (session->opts->timeline) {
        rc = gsp_memreport_timeline(report, &made, err);
        return rc == GSP_OK ? put_rows(session, made, err) : rc;
    }
    if (session->form == FORM_CSV) {
        rc = gsp_memreport_table(report, &made, err);
        return rc == GSP_OK ? put_rows(session, made, err) : rc;
    }
    if (session->form == FORM_HTML || session->form == FORM_MARKDOWN)
        return put_document(
            session, session->form == FORM_HTML ? GSP_DIGEST_HTML : GSP_DIGEST_MARKDOWN, err);
    if (session->form != FORM_TEXT && session->form != FORM_JSON)
        return put_stacks(session, err);
    if (session->form == FORM_TEXT)
        gsp_memreport_text(report, &text);
    else
        gsp_memreport_json(report, &text);
    return gsp_file_put(session->opts->output, session->opts->force, &text, err);
}

static int put_two(const struct session *session, struct gsp_err *err)
{
    struct gsp_memcontrast contrast;
    struct gsp_made_rows *made = NULL;
    gsp_auto_buf text = {0};
    int rc = gsp_memcontrast_make(&contrast, &session->reports[0], &session->reports[1], err);
    if (rc == GSP_OK && session->form == FORM_TEXT) {
        gsp_memcontrast_text(&contrast, &session->reports[1], &text);
        rc = gsp_file_put(session->opts->output, session->opts->force, &text, err);
    } else if (rc == GSP_OK) {
        rc = gsp_memcontrast_table(&contrast, &made, err);
        rc = rc == GSP_OK ? put_rows(session, made, err) : rc;
    }
    gsp_memcontrast_free(&contrast);
    return rc;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct mem_report_opts *opts = parsed->opts;
    struct session session = {.parsed = parsed, .opts = opts, .form = form_of(opts)};
    struct gsp_err err = {0};
    const char *misuse = misuse_of(opts, parsed->arg_count);
    if (misuse)
        return gsp_cli_misuse(parsed, "%s", misuse);
    if (session.form == FORMS)
        return gsp_cli_misuse(parsed, "the extension of %.100s tells no format: --format NAME",
                              opts->output);
    if ((parsed->arg_count > 1 || opts->timeline) && session.form > FORM_CSV)
        return gsp_cli_misuse(parsed, "%s: text, csv or json",
                              opts->timeline ? "a timeline" : "two recordings");
    int rc = opts->output ? gsp_file_check_new(opts->output, opts->force, &err) : GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < parsed->arg_count; i++)
        rc = ask(&session, i, &err);
    if (rc == GSP_OK)
        rc = parsed->arg_count > 1 ? put_two(&session, &err) : put_one(&session, &err);
    for (size_t i = 0; i < GSP_COUNT(session.reports); i++)
        gsp_memreport_close(&session.reports[i]);
    if (rc == GSP_E_USAGE)
        return gsp_cli_misuse(parsed, "%s", err.msg);
    const bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
    if (rc < 0)
        return gsp_cli_fail(
            parsed, &(struct gsp_hint_context){.path = is_output ? opts->output : session.faulty},
            &err);
    return 0;
}

const struct gsp_command gsp_cmd_mem_report = {
    .name = "mem-report",
    .spoken = "mem report",
    .summary = "Show a recording of memory: peak, leaks, churn, differences",
    .synopsis = "[OPTIONS] FILE [FILE]",
    .about = "Reads what `gsprof mem record` wrote, also a file whose end is missing. Amounts are "
             "of what the program asked for; where allocations were sampled they are estimates, "
             "and the column beside them is twice their standard error.\n"
             "A row is the innermost Python line of a stack; where that is a library's, the line "
             "of the program's own that led there follows.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct mem_report_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .args_min = 1,
    .args_max = 2,
    .lesser = true,
    .run = run,
};
