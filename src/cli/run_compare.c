/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_compare.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "compare/compare_write.h"
#include "compare/rules.h"
#include "report/document.h"

#define RULE_FAILED 1

static const struct {
    const char *name;
    enum gsp_compare_format format;
    const char *extensions[2];
} FORMATS[] = {
    {"text", GSP_COMPARE_TEXT, {".txt", ".text"}}, {"html", GSP_COMPARE_HTML, {".html", ".htm"}},
    {"json", GSP_COMPARE_JSON, {".json", NULL}},   {"md", GSP_COMPARE_MARKDOWN, {".md", NULL}},
    {"svg", GSP_COMPARE_SVG, {".svg", NULL}},
};

struct comparing {
    const struct gsp_parsed *parsed;
    const struct gsp_cli_compare_opts *how;
    struct gsp_report *side[2][GSP_COMPARE_SIDE_MAX];
    size_t count[2];         /* number of recordings on each side */
    struct gsp_buf paths[2]; /* the path that was opened last */
    struct gsp_buf names[2]; /* "base and 3 more" */
    struct gsp_compare *compare;
    struct gsp_compare_rule *rules;
    struct gsp_compare_rule_result *results;
    size_t result_count;
    const char *path; /* the path an error refers to */
};

const char *gsp_cli__compare_format(size_t i)
{
    return i < GSP_COUNT(FORMATS) ? FORMATS[i].name : NULL;
}

static bool to_stdout(const struct gsp_cli_compare_opts *how)
{
    return !how->output || strcmp(how->output, "-") == 0;
}

static enum gsp_compare_format format_of(const struct gsp_cli_compare_opts *how)
{
    for (size_t i = 0; i < GSP_COUNT(FORMATS); i++) {
        if (how->format && strcmp(how->format, FORMATS[i].name) == 0)
            return FORMATS[i].format;
        for (size_t k = 0; !how->format && how->output && k < 2; k++) {
            const char *extension = FORMATS[i].extensions[k];
            if (extension && gsp_sv_ends(gsp_sv_of(how->output), extension))
                return FORMATS[i].format;
        }
    }
    return GSP_COMPARE_TEXT;
}

/* Parses the rules before anything is read, so that errors appear at once. */
static int parse_rules(struct comparing *c, struct gsp_err *err)
{
    c->rules = calloc(c->how->rule_count + 1, sizeof(*c->rules));
    c->results = calloc(c->how->rule_count + 1, sizeof(*c->results));
    if (!c->rules || !c->results)
        return gsp_err_nomem(err);
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < c->how->rule_count; i++)
        rc = gsp_compare_rule_parse(c->how->rules[i], &c->rules[i], err);
    return rc;
}

/* Opens one side: a path or, if that does not exist, several paths separated by commas. */
static int open_side(struct comparing *c, int side, struct gsp_err *err)
{
    const struct gsp_report_open_opts opts = {.values = true};
    struct gsp_sv rest = gsp_sv_of(c->how->path[side]);
    struct gsp_sv part;
    int rc = GSP_OK;
    const char sep = access(c->how->path[side], F_OK) == 0 ? '\0' : ',';
    while (rc == GSP_OK && gsp_sv_split(&rest, sep, &part)) {
        if (c->count[side] == GSP_COMPARE_SIDE_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u recordings on a side",
                               GSP_COMPARE_SIDE_MAX);
        gsp_buf_clear(&c->paths[side]);
        gsp_buf_putsv(&c->paths[side], part);
        c->path = gsp_buf_cstr(&c->paths[side]);
        if (!c->path)
            return gsp_err_nomem(err);
        rc = gsp_report_open_path(c->path, &opts, &c->side[side][c->count[side]], err);
        c->count[side] += rc == GSP_OK;
    }
    return rc;
}

/* Recordings with the same name are named by their paths; several recordings are counted. */
static void name_sides(struct comparing *c, struct gsp_compare_opts *opts)
{
    const bool is_path = gsp_sv_eq(c->side[0][0]->name, c->side[1][0]->name) &&
                         strcmp(c->how->path[0], c->how->path[1]) != 0;
    for (int i = 0; i < 2; i++) {
        if (is_path)
            opts->name[i] = c->how->path[i];
        if (is_path || c->count[i] < 2)
            continue;
        gsp_buf_putsv(&c->names[i], c->side[i][0]->name);
        gsp_buf_printf(&c->names[i], " and %zu more", c->count[i] - 1);
        opts->name[i] = gsp_buf_cstr(&c->names[i]);
    }
}

static int check_rules(struct comparing *c, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < c->how->rule_count; i++) {
        rc = gsp_compare_rule_check(&c->rules[i], c->compare, c->how->any_change, &c->results[i],
                                    err);
        c->result_count += rc == GSP_OK;
    }
    return rc;
}

static int write_out(struct comparing *c, struct gsp_err *err)
{
    struct gsp_newfile file = {.fd = -1};
    struct gsp_term term;
    gsp_cli__term_init(&term, STDOUT_FILENO, "never");
    const struct gsp_compare_write_opts how = {
        .results = c->results,
        .result_count = c->result_count,
        .limit = c->how->limit,
        .width = to_stdout(c->how) && term.is_tty ? term.width : 0};
    int rc = gsp_newfile_open(&file, to_stdout(c->how) ? "-" : c->how->output, c->how->force, err);
    if (rc < 0)
        return rc;
    struct gsp_out out;
    gsp_out_init(&out, file.fd);
    rc = gsp_compare_write(c->compare, format_of(c->how), &how, &out, err);
    /* Report a failure of gsp_out_finish() only if nothing failed before. */
    struct gsp_err later = {0};
    const int finished = gsp_out_finish(&out, &later);
    if (rc == GSP_OK && finished < 0) {
        rc = finished;
        *err = later;
    }
    if (rc == GSP_OK)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}

static int compare_all(struct comparing *c, struct gsp_err *err)
{
    struct gsp_compare_opts opts = {.per = c->how->per, .warmup = c->how->warmup};
    int rc = parse_rules(c, err);
    if (rc == GSP_OK && !to_stdout(c->how)) {
        c->path = c->how->output;
        rc = gsp_file_check_new(c->how->output, c->how->force, err);
    }
    for (int i = 0; rc == GSP_OK && i < 2; i++)
        rc = open_side(c, i, err);
    if (rc == GSP_OK && (!c->side[0][0] || !c->side[1][0]))
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "compare needs two recordings");
    if (rc == GSP_OK) {
        const struct gsp_report *const *const sides[2] = {
            (const struct gsp_report *const *)c->side[0],
            (const struct gsp_report *const *)c->side[1]};
        c->path = NULL;
        name_sides(c, &opts);
        rc = gsp_compare_many(sides, c->count, &opts, &c->compare, err);
    }
    if (rc == GSP_OK)
        rc = check_rules(c, err);
    if (rc == GSP_OK) {
        c->path = c->how->output;
        rc = write_out(c, err);
    }
    return rc;
}

/* Prints the verdict and the caveats. */
static void print_verdict(const struct gsp_compare *compare, struct gsp_term *term)
{
    gsp_cli__term_line(term, "%.*s", (int)compare->verdict.len, compare->verdict.p);
    for (size_t i = 0; i < compare->note_count; i++) {
        gsp_auto_buf safe = {0};
        gsp_buf_term(&safe, compare->notes[i]);
        const char *text = gsp_buf_cstr(&safe);
        if (text)
            gsp_cli__term_line(term, "  %s", text);
    }
}

/* Prints to stderr what the user does not see on stdout. */
static void print_summary(const struct comparing *c)
{
    const bool on_stdout = to_stdout(c->how);
    struct gsp_term term;
    gsp_cli__term_init(&term, STDERR_FILENO, c->parsed->globals.color);
    bool is_undecided = false;
    if (!on_stdout && !c->parsed->globals.quiet)
        print_verdict(c->compare, &term);
    for (size_t i = 0; i < c->result_count; i++) {
        const struct gsp_compare_rule_result *result = &c->results[i];
        is_undecided = is_undecided || (result->is_over && !result->is_significant &&
                                        result->row->verdict == GSP_COMPARE_UNKNOWN);
        gsp_auto_buf line = {0};
        gsp_compare_result_put(result, &line);
        const char *text = gsp_buf_cstr(&line);
        if (text && (result->is_failed || !on_stdout) &&
            (result->is_failed || !c->parsed->globals.quiet))
            gsp_cli__term_line(&term, "gsprof: %s", text);
    }
    if (is_undecided && !c->parsed->globals.quiet)
        gsp_cli__term_line(&term, "gsprof: a rule has too few values for a significance test; "
                                  "--no-significance skips the test");
    if (!to_stdout(c->how) && !c->parsed->globals.quiet)
        gsp_cli__term_line(&term, "Wrote %s.", c->how->output);
}

int gsp_cli__compare(const struct gsp_parsed *parsed, const struct gsp_cli_compare_opts *how)
{
    struct comparing c = {.parsed = parsed, .how = how};
    struct gsp_err err = {0};
    int status = 0;
    const int rc = compare_all(&c, &err);
    if (rc == GSP_E_USAGE) {
        status = gsp_cli__misuse(parsed, "%s", err.msg);
    } else if (rc < 0) {
        status = gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = c.path}, &err);
        /* Exit status 1 is reserved for failed rules. */
        status = status == RULE_FAILED ? gsp_err_exit_status(GSP_E_FORMAT) : status;
    } else if (c.compare) {
        print_summary(&c);
        for (size_t i = 0; i < c.result_count; i++)
            status = c.results[i].is_failed ? RULE_FAILED : status;
    }
    gsp_compare_free(c.compare);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c.count[side]; i++)
            gsp_report_free(c.side[side][i]);
        gsp_buf_free(&c.paths[side]);
        gsp_buf_free(&c.names[side]);
    }
    free(c.rules);
    free(c.results);
    return status;
}
