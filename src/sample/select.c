/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/select.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "model/frames.h"

#define NAMES_MAX (16U << 20)

enum action {
    UNDECIDED,
    KEEP,
    OMIT,
    IMPORT,
    BEGIN, /* the recorded stack begins above it */
};

struct decision {
    unsigned char action;
    uint32_t frame; /* to show */
};

struct pattern {
    regex_t regex;
    bool is_set;
};

struct gsp_select {
    struct gsp_profile *profile; /* borrowed */
    struct pattern include;
    struct pattern exclude;
    struct pattern thread;
    struct pattern below;
    struct gsp_buf names;
    bool import_frames;
    uint32_t import_mark; /* frame ids */
    uint32_t gc_mark;
    struct decision *decisions; /* by frame id */
    size_t decision_cap;
    unsigned char *begun; /* by stack id: a frame that matches `below` was found */
    size_t begun_cap;
    uint32_t *rewritten; /* by stack id: the rewritten stack + 1; 0 not known yet */
    size_t rewritten_cap;
    uint32_t path[GSP_STACK_DEPTH_MAX];
};

static int compile(struct pattern *pattern, const char *text, struct gsp_err *err)
{
    if (!text)
        return GSP_OK;
    int failed = regcomp(&pattern->regex, text, REG_EXTENDED | REG_NOSUB);
    if (failed) {
        char why[96];
        regerror(failed, &pattern->regex, why, sizeof(why));
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.100s is not a regular expression: %s", text,
                           why);
    }
    pattern->is_set = true;
    return GSP_OK;
}

static void release(struct pattern *pattern)
{
    if (pattern->is_set)
        regfree(&pattern->regex);
    pattern->is_set = false;
}

int gsp_sample_select_check(const char *text, struct gsp_err *err)
{
    struct pattern pattern = {0};
    int rc = compile(&pattern, text, err);
    release(&pattern);
    return rc;
}

/* Names come from the target. Anything after a NUL is ignored. */
static bool matches(const struct pattern *pattern, struct gsp_sv text)
{
    gsp_auto_buf copy = {0};
    gsp_buf_putsv(&copy, text);
    const char *chars = gsp_buf_cstr(&copy);
    return chars && regexec(&pattern->regex, chars, 0, NULL, 0) == 0;
}

static int make_mark(struct gsp_profile *profile, const char *name, uint32_t *out,
                     struct gsp_err *err)
{
    struct gsp_frame frame = {.kind = GSP_FRAME_MARK};
    int rc = gsp_model_profile_string(profile, gsp_sv_of(name), &frame.name, err);
    return rc == GSP_OK ? gsp_model_profile_frame(profile, &frame, out, err) : rc;
}

int gsp_sample__select_new(const struct gsp_select_opts *opts, struct gsp_profile *profile,
                           struct gsp_select **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_select *select = calloc(1, sizeof(*select));
    if (!select)
        return gsp_err_nomem(err);
    select->profile = profile;
    select->import_frames = opts->import_frames;
    int rc = compile(&select->include, opts->include, err);
    if (rc == GSP_OK)
        rc = compile(&select->exclude, opts->exclude, err);
    if (rc == GSP_OK)
        rc = compile(&select->thread, opts->thread, err);
    if (rc == GSP_OK)
        rc = compile(&select->below, opts->below, err);
    if (rc == GSP_OK && opts->names)
        rc = gsp_file_read(opts->names, NAMES_MAX, &select->names, err);
    if (rc != GSP_OK) {
        gsp_sample__select_free(select);
        return rc;
    }
    *out = select;
    return GSP_OK;
}

void gsp_sample__select_free(struct gsp_select *select)
{
    if (!select)
        return;
    release(&select->include);
    release(&select->exclude);
    release(&select->thread);
    release(&select->below);
    gsp_buf_free(&select->names);
    free(select->decisions);
    free(select->begun);
    free(select->rewritten);
    free(select);
}

bool gsp_sample__select_thread(const struct gsp_select *select, struct gsp_sv name)
{
    return !select->thread.is_set || matches(&select->thread, name);
}

static enum action decide(const struct gsp_select *select, const struct gsp_frame *frame)
{
    struct gsp_sv name = gsp_model_profile_string_at(select->profile, frame->name);
    struct gsp_sv file = gsp_model_profile_string_at(select->profile, frame->file);
    if (select->below.is_set && (matches(&select->below, name) || matches(&select->below, file)))
        return BEGIN;
    if (frame->kind == GSP_FRAME_PYTHON && gsp_model_file_is_own(file))
        return OMIT;
    if (select->exclude.is_set &&
        (matches(&select->exclude, name) || matches(&select->exclude, file)))
        return OMIT;
    if (select->include.is_set && !matches(&select->include, name) &&
        !matches(&select->include, file))
        return OMIT;
    bool is_import = frame->kind == GSP_FRAME_PYTHON && gsp_model_file_is_import(file);
    return is_import && !select->import_frames ? IMPORT : KEEP;
}

/* The frame with the name that the file of names gives its file. */
static int rename_file(const struct gsp_select *select, const struct gsp_frame *frame,
                       uint32_t *out, struct gsp_err *err)
{
    const struct gsp_sv file = gsp_model_profile_string_at(select->profile, frame->file);
    struct gsp_sv rest = gsp_buf_sv(&select->names);
    struct gsp_sv line;
    struct gsp_sv path;
    struct gsp_frame renamed = *frame;
    while (gsp_sv_split(&rest, '\n', &line)) {
        if (!gsp_sv_split(&line, '\t', &path) || !gsp_sv_eq(path, file))
            continue;
        int rc = gsp_model_profile_string(select->profile, line, &renamed.file, err);
        return rc == GSP_OK ? gsp_model_profile_frame(select->profile, &renamed, out, err) : rc;
    }
    return GSP_OK;
}

/* Makes space for one more entry than the number of ids. */
static bool reserve(struct gsp_select *select)
{
    const size_t frames = gsp_model_profile_frame_count(select->profile);
    const size_t stacks = gsp_model_profile_stack_count(select->profile);
    return gsp_array_fit_zeroed(&select->decisions, &select->decision_cap, frames + 1) &&
           gsp_array_fit_zeroed(&select->begun, &select->begun_cap, stacks + 1) &&
           gsp_array_fit_zeroed(&select->rewritten, &select->rewritten_cap, stacks + 1);
}

static int decide_frame(struct gsp_select *select, uint32_t frame, struct gsp_err *err)
{
    /* A copy, because adding a frame moves them. */
    const struct gsp_frame copy = *gsp_model_profile_frame_at(select->profile, frame);
    uint32_t shown = frame;
    int rc = select->names.len ? rename_file(select, &copy, &shown, err) : GSP_OK;
    if (rc == GSP_OK)
        select->decisions[frame] = (struct decision){(unsigned char)decide(select, &copy), shown};
    return rc;
}

/* base, with the visible part of frame on top. */
static int put_frame(struct gsp_select *select, uint32_t base, uint32_t frame, uint32_t *out,
                     struct gsp_err *err)
{
    const struct decision *decision = &select->decisions[frame];
    *out = base;
    if (decision->action == OMIT)
        return GSP_OK;
    if (decision->action == KEEP)
        return gsp_model_profile_stack(select->profile, base, decision->frame, out, err);
    int rc = GSP_OK;
    if (select->import_mark == GSP_NONE)
        rc = make_mark(select->profile, GSP_MARK_IMPORT, &select->import_mark, err);
    /* One mark for all frames of an import. */
    if (rc != GSP_OK ||
        (base && gsp_model_profile_stack_frame(select->profile, base) == select->import_mark))
        return rc;
    return gsp_model_profile_stack(select->profile, base, select->import_mark, out, err);
}

static int put_gc(struct gsp_select *select, uint32_t *stack, struct gsp_err *err)
{
    int rc = GSP_OK;
    if (select->gc_mark == GSP_NONE)
        rc = make_mark(select->profile, GSP_MARK_GC, &select->gc_mark, err);
    /* A stack of maximum depth has no room for the mark. */
    if (rc == GSP_OK &&
        gsp_model_profile_stack_depth(select->profile, *stack) < GSP_STACK_DEPTH_MAX)
        rc = gsp_model_profile_stack(select->profile, *stack, select->gc_mark, stack, err);
    return rc;
}

int gsp_sample__select_stack(struct gsp_select *select, uint32_t stack, bool in_gc, uint32_t *out,
                             struct gsp_err *err)
{
    if (!reserve(select))
        return gsp_err_nomem(err);
    size_t n = 0;
    uint32_t at = stack;
    while (at != GSP_NONE && select->rewritten[at] == 0 && n < GSP_STACK_DEPTH_MAX) {
        select->path[n++] = at;
        at = gsp_model_profile_stack_caller(select->profile, at);
    }
    uint32_t now = at ? select->rewritten[at] - 1 : GSP_NONE;
    bool has_begun = !select->below.is_set || (at && select->begun[at]);
    while (n > 0) {
        at = select->path[--n];
        const uint32_t frame = gsp_model_profile_stack_frame(select->profile, at);
        int rc = select->decisions[frame].action == UNDECIDED ? decide_frame(select, frame, err)
                                                              : GSP_OK;
        if (rc == GSP_OK && select->decisions[frame].action == BEGIN) {
            has_begun = true;
            now = GSP_NONE;
        } else if (rc == GSP_OK && has_begun) {
            rc = put_frame(select, now, frame, &now, err);
        }
        if (rc != GSP_OK)
            return rc;
        select->begun[at] = has_begun;
        select->rewritten[at] = now + 1;
    }
    *out = now;
    return in_gc && now ? put_gc(select, out, err) : GSP_OK;
}
