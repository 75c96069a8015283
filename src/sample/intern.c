/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/intern.h"

#include <stdlib.h>

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
    struct gsp_frame frame = {.kind = GSP_FRAME_MARK};
    uint32_t id;
    int rc = gsp_model_profile_string(profile, gsp_sv_of("(more frames)"), &frame.name, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_frame(profile, &frame, &id, err);
    return rc == GSP_OK ? gsp_model_profile_stack(profile, GSP_NONE, id, out, err) : rc;
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
            rc = gsp_model_profile_stack(profile, stack, frame, &stack, err);
        if (rc != GSP_OK)
            break;
        path->locs[i] = loc;
        path->stacks[i] = stack;
        path->count = i + 1;
    }
    *out = stack;
    return rc;
}
