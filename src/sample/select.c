/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/select.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define IMPORT_FILES "<frozen importlib._bootstrap" /* and ..._external> */

enum verdict {
    UNJUDGED,
    KEEP,
    LEAVE_OUT,
    IMPORT,
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
    bool import_frames;
    uint32_t import_mark; /* frame ids */
    uint32_t gc_mark;
    unsigned char *verdicts; /* by frame id */
    size_t verdict_cap;
    uint32_t *became; /* by stack id: the stack it became + 1; 0 not known yet */
    size_t became_cap;
    uint32_t path[GSP_STACK_DEPTH_MAX];
};

static int no_memory(struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
}

static int compile(struct pattern *pattern, const char *text, struct gsp_err *err)
{
    if (!text)
        return GSP_OK;
    int failed = regcomp(&pattern->regex, text, REG_EXTENDED | REG_NOSUB);
    if (failed) {
        char why[96];
        regerror(failed, &pattern->regex, why, sizeof(why));
        return gsp_err_set(err, GSP_E_USAGE, 0, "%.100s is no regular expression: %s", text, why);
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

int gsp_select_check(const char *text, struct gsp_err *err)
{
    struct pattern pattern = {0};
    int rc = compile(&pattern, text, err);
    release(&pattern);
    return rc;
}

/* Names come from the target: what is behind a NUL is not looked at. */
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
    int rc = gsp_profile_string(profile, gsp_sv_of(name), &frame.name, err);
    return rc == GSP_OK ? gsp_profile_frame(profile, &frame, out, err) : rc;
}

int gsp_select_new(const struct gsp_select_opts *opts, struct gsp_profile *profile,
                   struct gsp_select **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_select *select = calloc(1, sizeof(*select));
    if (!select)
        return no_memory(err);
    select->profile = profile;
    select->import_frames = opts->import_frames;
    int rc = compile(&select->include, opts->include, err);
    if (rc == GSP_OK)
        rc = compile(&select->exclude, opts->exclude, err);
    if (rc == GSP_OK)
        rc = compile(&select->thread, opts->thread, err);
    if (rc != GSP_OK) {
        gsp_select_free(select);
        return rc;
    }
    *out = select;
    return GSP_OK;
}

void gsp_select_free(struct gsp_select *select)
{
    if (!select)
        return;
    release(&select->include);
    release(&select->exclude);
    release(&select->thread);
    free(select->verdicts);
    free(select->became);
    free(select);
}

bool gsp_select_thread(const struct gsp_select *select, struct gsp_sv name)
{
    return !select->thread.is_set || matches(&select->thread, name);
}

static enum verdict judge(const struct gsp_select *select, const struct gsp_frame *frame)
{
    struct gsp_sv name = gsp_profile_string_at(select->profile, frame->name);
    struct gsp_sv file = gsp_profile_string_at(select->profile, frame->file);
    if (select->exclude.is_set &&
        (matches(&select->exclude, name) || matches(&select->exclude, file)))
        return LEAVE_OUT;
    if (select->include.is_set && !matches(&select->include, name) &&
        !matches(&select->include, file))
        return LEAVE_OUT;
    bool is_import = frame->kind == GSP_FRAME_PYTHON && gsp_sv_starts(file, IMPORT_FILES);
    return is_import && !select->import_frames ? IMPORT : KEEP;
}

/* Room for one more entry than there are ids; new entries are zero. */
static void *grow(void *array, size_t *cap, size_t need, size_t size)
{
    if (need < *cap)
        return array;
    size_t wanted = need + need / 2 + 64;
    char *grown = realloc(array, wanted * size);
    if (!grown)
        return NULL;
    memset(grown + *cap * size, 0, (wanted - *cap) * size);
    *cap = wanted;
    return grown;
}

static bool reserve(struct gsp_select *select)
{
    unsigned char *verdicts = grow(select->verdicts, &select->verdict_cap,
                                   gsp_profile_frame_count(select->profile), sizeof(*verdicts));
    if (!verdicts)
        return false;
    select->verdicts = verdicts;
    uint32_t *became = grow(select->became, &select->became_cap,
                            gsp_profile_stack_count(select->profile), sizeof(*became));
    if (!became)
        return false;
    select->became = became;
    return true;
}

/* base, with what is to be seen of frame on top. */
static int put_frame(struct gsp_select *select, uint32_t base, uint32_t frame, uint32_t *out,
                     struct gsp_err *err)
{
    unsigned char *verdict = &select->verdicts[frame];
    if (*verdict == UNJUDGED)
        *verdict = (unsigned char)judge(select, gsp_profile_frame_at(select->profile, frame));
    *out = base;
    if (*verdict == LEAVE_OUT)
        return GSP_OK;
    if (*verdict == KEEP)
        return gsp_profile_stack(select->profile, base, frame, out, err);
    int rc = GSP_OK;
    if (select->import_mark == GSP_NONE)
        rc = make_mark(select->profile, GSP_MARK_IMPORT, &select->import_mark, err);
    /* One mark for however many frames an import takes. */
    if (rc != GSP_OK ||
        (base && gsp_profile_stack_frame(select->profile, base) == select->import_mark))
        return rc;
    return gsp_profile_stack(select->profile, base, select->import_mark, out, err);
}

static int put_gc(struct gsp_select *select, uint32_t *stack, struct gsp_err *err)
{
    int rc = GSP_OK;
    if (select->gc_mark == GSP_NONE)
        rc = make_mark(select->profile, GSP_MARK_GC, &select->gc_mark, err);
    /* A stack of the greatest depth goes without the mark. */
    if (rc == GSP_OK && gsp_profile_stack_depth(select->profile, *stack) < GSP_STACK_DEPTH_MAX)
        rc = gsp_profile_stack(select->profile, *stack, select->gc_mark, stack, err);
    return rc;
}

int gsp_select_stack(struct gsp_select *select, uint32_t stack, bool in_gc, uint32_t *out,
                     struct gsp_err *err)
{
    if (!reserve(select))
        return no_memory(err);
    size_t n = 0;
    uint32_t at = stack;
    while (at != GSP_NONE && select->became[at] == 0 && n < GSP_STACK_DEPTH_MAX) {
        select->path[n++] = at;
        at = gsp_profile_stack_caller(select->profile, at);
    }
    uint32_t now = at ? select->became[at] - 1 : GSP_NONE;
    while (n > 0) {
        at = select->path[--n];
        uint32_t frame = gsp_profile_stack_frame(select->profile, at);
        int rc = put_frame(select, now, frame, &now, err);
        if (rc != GSP_OK)
            return rc;
        select->became[at] = now + 1;
    }
    *out = now;
    return in_gc && now ? put_gc(select, out, err) : GSP_OK;
}
