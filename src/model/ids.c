/* SPDX-License-Identifier: Apache-2.0 */
#include "model/ids.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/map.h"

const char *gsp_model_frame_type_name(enum gsp_frame_kind kind)
{
    static const char *const NAMES[] = {[GSP_FRAME_PYTHON] = "Python",
                                        [GSP_FRAME_NATIVE] = "Native",
                                        [GSP_FRAME_KERNEL] = "Kernel",
                                        [GSP_FRAME_MARK] = "Mark"};
    return (size_t)kind < GSP_COUNT(NAMES) ? NAMES[kind] : NAMES[GSP_FRAME_NATIVE];
}

enum gsp_frame_kind gsp_model_frame_type_find(struct gsp_sv name)
{
    static const enum gsp_frame_kind KINDS[] = {GSP_FRAME_PYTHON, GSP_FRAME_NATIVE,
                                                GSP_FRAME_KERNEL, GSP_FRAME_MARK};
    for (size_t i = 0; i < GSP_COUNT(KINDS); i++)
        if (gsp_sv_eq(name, gsp_sv_of(gsp_model_frame_type_name(KINDS[i]))))
            return KINDS[i];
    return GSP_FRAME_NATIVE;
}

/* Hashes only what the table python.stack shows of a frame. */
static uint64_t hash_frame(const struct gsp_profile *profile, const struct gsp_frame *frame)
{
    const struct gsp_sv name = gsp_model_profile_string_at(profile, frame->name);
    const struct gsp_sv file = gsp_model_profile_string_at(profile, frame->file);
    uint64_t h =
        gsp_hash_bytes(name.p, name.len, (uint64_t)gsp_model_frame_type_name(frame->kind)[0]);
    h = gsp_hash_bytes(file.p, file.len, h);
    return gsp_mix64(h ^ frame->line);
}

int64_t gsp_model_stack_id(const struct gsp_profile *profile, uint32_t stack, int64_t caller_id)
{
    const struct gsp_frame *frame =
        gsp_model_profile_frame_at(profile, gsp_model_profile_stack_frame(profile, stack));
    uint64_t h =
        gsp_model_profile_stack_caller(profile, stack) != GSP_NONE ? (uint64_t)caller_id : 0;
    h = gsp_mix64(h + (frame ? hash_frame(profile, frame) : 0)) >> 1;
    return h ? (int64_t)h : 1;
}

int gsp_model_stack_ids(const struct gsp_profile *profile, int64_t **out, struct gsp_err *err)
{
    *out = NULL;
    const size_t count = gsp_model_profile_stack_count(profile);
    int64_t *ids = calloc(count + 1, sizeof(*ids));
    if (!ids)
        return gsp_err_nomem(err);
    ids[0] = GSP_ID_NONE;
    /* A caller's stack always has a lower number than the stacks that it calls. */
    for (uint32_t i = 1; i <= count; i++) {
        const uint32_t caller = gsp_model_profile_stack_caller(profile, i);
        ids[i] = gsp_model_stack_id(profile, i, caller < i ? ids[caller] : 0);
    }
    *out = ids;
    return GSP_OK;
}

int64_t gsp_model_rank_of_name(struct gsp_sv process_name)
{
    static const char PREFIX[] = "rank ";
    if (!gsp_sv_starts(process_name, PREFIX))
        return GSP_ID_NONE;
    int64_t rank = 0;
    size_t i = sizeof(PREFIX) - 1;
    const size_t first = i;
    while (i < process_name.len && process_name.p[i] >= '0' && process_name.p[i] <= '9' &&
           i - first < 9) {
        rank = rank * 10 + (process_name.p[i] - '0');
        i++;
    }
    const bool ends = i > first && i < process_name.len && process_name.p[i] == ':';
    return ends ? rank : GSP_ID_NONE;
}
