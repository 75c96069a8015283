/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare_write_internal.h"
#include "export/svg.h"

/* Factor for integer values: nanoseconds, or millionths of the total. */
static double scale_of(const struct gsp_compare *compare)
{
    if (compare->per == GSP_PER_SHARE)
        return 1e4;
    return strcmp(compare->unit, "s") == 0 ? 1e9 : 1;
}

static enum gsp_unit unit_of(const struct gsp_compare *compare)
{
    if (strcmp(compare->unit, "bytes") == 0)
        return GSP_UNIT_BYTES;
    return strcmp(compare->unit, "samples") == 0 ? GSP_UNIT_COUNT : GSP_UNIT_NS;
}

/* The comparison as profiles: each side alone, and both together. */
enum { SIDE_FIRST, SIDE_SECOND, SIDE_SUM, SIDE_COUNT };

struct sides {
    struct gsp_profile *profile[SIDE_COUNT];
    uint32_t *frames; /* frame ids by function; the same in all profiles */
    uint32_t *stacks; /* stack ids by node; the same in all profiles */
};

static int add_frames(const struct gsp_compare *compare, struct gsp_profile *profile,
                      uint32_t *frames, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < compare->function_count; i++) {
        const struct gsp_compare_function *function = &compare->functions[i];
        struct gsp_frame frame = {
            .line = function->line, .first_line = function->line, .kind = function->kind};
        rc = gsp_model_profile_string(profile, function->row.name, &frame.name, err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_string(profile, function->file, &frame.file, err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(profile, &frame, &frames[i], err);
    }
    return rc;
}

/* The own value of a node in one recording as a whole number. */
static int64_t value_in(const struct gsp_compare *compare, const struct gsp_compare_node *node,
                        int side)
{
    return (int64_t)fmin(fmax(node->own[side] * scale_of(compare), 0), 1e18);
}

static int64_t value_of(const struct gsp_compare *compare, const struct gsp_compare_node *node,
                        int side)
{
    if (side != SIDE_SUM)
        return value_in(compare, node, side);
    return value_in(compare, node, SIDE_FIRST) + value_in(compare, node, SIDE_SECOND);
}

static int add_stacks(const struct gsp_compare *compare, struct sides *sides, int side,
                      struct gsp_err *err)
{
    struct gsp_profile *profile = sides->profile[side];
    uint32_t process = 0;
    struct gsp_total total = {.count = 1};
    int rc = gsp_model_profile_process(profile, &(struct gsp_process){.ppid = -1}, &process, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_thread(profile, &(struct gsp_thread){.process = process},
                                      &total.thread, err);
    for (size_t i = 0; rc == GSP_OK && i < compare->node_count; i++) {
        const struct gsp_compare_node *node = &compare->nodes[i];
        const uint32_t caller = node->parent < 0 ? GSP_NONE : sides->stacks[node->parent];
        rc = gsp_model_profile_stack(profile, caller, sides->frames[node->frame], &sides->stacks[i],
                                     err);
        total.stack = sides->stacks[i];
        total.weight = value_of(compare, node, side);
        if (rc == GSP_OK && total.weight > 0)
            rc = gsp_model_profile_add_total(profile, &total, err);
    }
    return rc;
}

static int make_sides(const struct gsp_compare *compare, struct sides *sides, struct gsp_err *err)
{
    sides->frames = calloc(compare->function_count + 1, sizeof(*sides->frames));
    sides->stacks = calloc(compare->node_count + 1, sizeof(*sides->stacks));
    int rc = sides->frames && sides->stacks ? GSP_OK : gsp_err_nomem(err);
    for (int side = 0; rc == GSP_OK && side < SIDE_COUNT; side++) {
        rc = gsp_model_profile_new(false, &sides->profile[side], err);
        if (rc == GSP_OK)
            rc = add_frames(compare, sides->profile[side], sides->frames, err);
        if (rc == GSP_OK)
            rc = add_stacks(compare, sides, side, err);
    }
    return rc;
}

int gsp_compare__write_svg(const struct gsp_compare *compare, struct gsp_out *out,
                           struct gsp_err *err)
{
    if (compare->node_count == 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0, "no flame graph: a recording has no stacks");
    struct sides sides = {0};
    int rc = make_sides(compare, &sides, err);
    const struct gsp_svg_diff diff = {
        .name = {compare->name[0], compare->name[1]},
        .profile = {sides.profile[SIDE_FIRST], sides.profile[SIDE_SECOND]},
        .sum = sides.profile[SIDE_SUM],
        .unit = unit_of(compare),
        .is_share = compare->per == GSP_PER_SHARE,
        .per = compare->per == GSP_PER_STEP ? "in each step" : ""};
    if (rc == GSP_OK)
        rc = gsp_export_svg_write_diff(&diff, out, err);
    for (int side = 0; side < SIDE_COUNT; side++)
        gsp_model_profile_free(sides.profile[side]);
    free(sides.frames);
    free(sides.stacks);
    return rc;
}
