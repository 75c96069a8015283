/* SPDX-License-Identifier: Apache-2.0 */
#include "model/lines.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/map.h"

int gsp_model_stack_weights_new(const struct gsp_profile *profile, struct gsp_stack_weights *out,
                                struct gsp_err *err)
{
    const size_t count = gsp_model_profile_stack_count(profile) + 1;
    *out = (struct gsp_stack_weights){.own = calloc(count, sizeof(*out->own)),
                                      .total = calloc(count, sizeof(*out->total))};
    if (!out->own || !out->total) {
        gsp_model_stack_weights_free(out);
        return gsp_err_nomem(err);
    }
    for (size_t i = 0; i < gsp_model_profile_total_count(profile); i++) {
        const struct gsp_total *row = gsp_model_profile_total_at(profile, i);
        out->own[row->stack] += (double)row->weight;
    }
    /* A caller has a lower id, because it is interned first. */
    for (size_t id = count - 1; id > 0; id--) {
        out->total[id] += out->own[id];
        const uint32_t caller = gsp_model_profile_stack_caller(profile, (uint32_t)id);
        gsp_assert(caller < id);
        out->total[caller] += out->total[id];
    }
    return GSP_OK;
}

void gsp_model_stack_weights_free(struct gsp_stack_weights *weights)
{
    free(weights->own);
    free(weights->total);
    *weights = (struct gsp_stack_weights){0};
}

/* The weight of a frame, which is one line of a function. */
struct heat {
    double own;
    double total;
};

static bool is_hotter(const struct heat *a, const struct heat *b)
{
    return a->own > b->own || (!(a->own < b->own) && a->total > b->total);
}

/* Finds the hottest frame of each function, and the function of each frame. */
static bool find_hottest(const struct gsp_profile *profile, const struct heat *heats,
                         uint32_t *hottest, uint32_t *function_of)
{
    struct gsp_hmap functions = {0};
    uint32_t count = 0;
    bool ok = true;
    for (uint32_t id = 1; ok && id <= gsp_model_profile_frame_count(profile); id++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
        const uint64_t names = (uint64_t)frame->name << 32 | frame->file;
        const uint32_t *known = gsp_hmap_get(&functions, names, frame->kind);
        function_of[id] = known ? *known : count;
        if (!known) {
            ok = gsp_hmap_put(&functions, names, frame->kind, count);
            hottest[count++] = id;
        } else if (is_hotter(&heats[id], &heats[hottest[*known]])) {
            hottest[*known] = id;
        }
    }
    gsp_hmap_free(&functions);
    return ok;
}

int gsp_model_hot_lines(const struct gsp_profile *profile, const struct gsp_stack_weights *weights,
                        uint32_t **out, struct gsp_err *err)
{
    const size_t count = gsp_model_profile_frame_count(profile) + 1;
    struct heat *heats = calloc(count, sizeof(*heats));
    uint32_t *hottest = calloc(count, sizeof(*hottest));
    uint32_t *lines = calloc(count, sizeof(*lines));
    for (uint32_t id = 1; heats && id <= gsp_model_profile_stack_count(profile); id++) {
        struct heat *heat = &heats[gsp_model_profile_stack_frame(profile, id)];
        heat->own += weights->own[id];
        heat->total += weights->total[id];
    }
    const bool ok = heats && hottest && lines && find_hottest(profile, heats, hottest, lines);
    for (uint32_t id = 1; ok && id < count; id++)
        lines[id] = gsp_model_profile_frame_at(profile, hottest[lines[id]])->line;
    free(heats);
    free(hottest);
    *out = ok ? lines : NULL;
    if (!ok)
        free(lines);
    return ok ? GSP_OK : gsp_err_nomem(err);
}
