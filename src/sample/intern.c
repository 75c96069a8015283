/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/intern.h"

#include <stdlib.h>

/* The target decides how many names, functions and stacks it has. */
#define NAME_BYTES_MAX (64U << 20)
#define FRAMES_MAX     (1U << 20)
#define STACKS_MAX     (4U << 20)

void gsp_sample__stack_path_free(struct gsp_stack_path *path)
{
    free(path->locs);
    free(path->stacks);
    *path = (struct gsp_stack_path){0};
}

static int reserve(struct gsp_stack_path *path, size_t need, struct gsp_err *err)
{
    if (need <= path->cap)
        return GSP_OK;
    size_t cap = need + need / 2 + 16;
    uint32_t *locs = realloc(path->locs, cap * sizeof(*locs));
    if (locs)
        path->locs = locs;
    uint32_t *stacks = locs ? realloc(path->stacks, cap * sizeof(*stacks)) : NULL;
    if (!stacks)
        return gsp_err_nomem(err);
    path->stacks = stacks;
    path->cap = cap;
    return GSP_OK;
}

static int make_mark(struct gsp_profile *profile, const char *name, uint32_t *out,
                     struct gsp_err *err)
{
    struct gsp_frame frame = {.kind = GSP_FRAME_MARK};
    int rc = gsp_model_profile_string(profile, gsp_sv_of(name), &frame.name, err);
    return rc == GSP_OK ? gsp_model_profile_frame(profile, &frame, out, err) : rc;
}

int gsp_sample__frame_intern(struct gsp_py_codes *codes, uint32_t index,
                             struct gsp_profile *profile, uint32_t *out, struct gsp_err *err)
{
    struct gsp_py_loc *loc = gsp_py_codes_loc_at(codes, index);
    if (loc->tag == 0) {
        const struct gsp_py_code *code = gsp_py_codes_at(codes, loc->code);
        struct gsp_frame frame = {
            .line = loc->line, .first_line = code->first_line, .kind = GSP_FRAME_PYTHON};
        struct gsp_sv name = {code->name, code->name_len};
        struct gsp_sv file = {code->file, code->file_len};
        if (gsp_model_profile_string_bytes(profile) + name.len + file.len > NAME_BYTES_MAX ||
            gsp_model_profile_frame_count(profile) >= FRAMES_MAX)
            return make_mark(profile, "(more functions)", out, err);
        int rc = gsp_model_profile_string(profile, name, &frame.name, err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_string(profile, file, &frame.file, err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(profile, &frame, &loc->tag, err);
        if (rc != GSP_OK)
            return rc;
    }
    *out = loc->tag;
    return GSP_OK;
}

/* The mark for frames beyond the depth limit of a walk. */
static int root_of(const struct gsp_py_thread *thread, struct gsp_profile *profile, uint32_t *out,
                   struct gsp_err *err)
{
    *out = GSP_NONE;
    if (!thread->cut)
        return GSP_OK;
    uint32_t id;
    int rc = make_mark(profile, "(more frames)", &id, err);
    return rc == GSP_OK ? gsp_model_profile_stack(profile, GSP_NONE, id, out, err) : rc;
}

int gsp_sample__stack_push(struct gsp_profile *profile, uint32_t *stack, uint32_t frame,
                           struct gsp_err *err)
{
    uint32_t known = gsp_model_profile_stack_find(profile, *stack, frame);
    if (known == GSP_NONE && gsp_model_profile_stack_count(profile) >= STACKS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the recording has %u stacks", STACKS_MAX);
    int rc =
        known == GSP_NONE ? gsp_model_profile_stack(profile, *stack, frame, &known, err) : GSP_OK;
    if (rc == GSP_OK)
        *stack = known;
    return rc;
}

int gsp_sample__stack_intern(struct gsp_stack_path *path, struct gsp_py_target *target,
                             const struct gsp_py_thread *thread, struct gsp_profile *profile,
                             uint32_t *out, struct gsp_err *err)
{
    struct gsp_py_codes *codes = gsp_py_target_codes(target);
    uint64_t epoch = gsp_py_target_epoch(target);
    /* The profile allows as many frames as a walk; the mark uses one of them. */
    size_t depth = thread->depth;
    size_t limit = GSP_STACK_DEPTH_MAX - 1;
    size_t use = depth < limit ? depth : limit;
    int rc = reserve(path, use, err);
    if (rc != GSP_OK)
        return rc;
    size_t i = 0;
    if (path->epoch == epoch && !thread->cut)
        while (i < path->count && i < use && path->locs[i] == thread->locs[depth - 1 - i])
            i++;
    path->epoch = epoch;
    path->count = i;
    uint32_t stack = GSP_NONE;
    rc = i ? GSP_OK : root_of(thread, profile, &stack, err);
    if (i)
        stack = path->stacks[i - 1];
    for (; rc == GSP_OK && i < use; i++) {
        uint32_t loc = thread->locs[depth - 1 - i];
        uint32_t frame;
        rc = gsp_sample__frame_intern(codes, loc, profile, &frame, err);
        if (rc == GSP_OK)
            rc = gsp_sample__stack_push(profile, &stack, frame, err);
        if (rc != GSP_OK)
            break;
        path->locs[i] = loc;
        path->stacks[i] = stack;
        path->count = i + 1;
    }
    *out = stack;
    return rc == GSP_E_LIMIT ? GSP_OK : rc;
}
