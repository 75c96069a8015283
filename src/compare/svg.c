/* SPDX-License-Identifier: Apache-2.0 */
#include "export/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/write_internal.h"

/* Values as whole numbers: nanoseconds, or millionths of all. */
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

static int add_frames(const struct gsp_compare *compare, struct gsp_profile *profile,
                      uint32_t *frames, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < compare->function_count; i++) {
        const struct gsp_compare_function *function = &compare->functions[i];
        struct gsp_frame frame = {
            .line = function->line, .first_line = function->line, .kind = function->kind};
        rc = gsp_profile_string(profile, function->row.name, &frame.name, err);
        if (rc == GSP_OK)
            rc = gsp_profile_string(profile, function->file, &frame.file, err);
        if (rc == GSP_OK)
            rc = gsp_profile_frame(profile, &frame, &frames[i], err);
    }
    return rc;
}

static int add_stacks(const struct gsp_compare *compare, struct gsp_profile *profile,
                      const uint32_t *frames, uint32_t *stacks, struct gsp_err *err)
{
    const double scale = scale_of(compare);
    uint32_t process = 0;
    struct gsp_total total = {0};
    int rc = gsp_profile_process(profile, &(struct gsp_process){.ppid = -1}, &process, err);
    if (rc == GSP_OK)
        rc = gsp_profile_thread(profile, &(struct gsp_thread){.process = process}, &total.thread,
                                err);
    for (size_t i = 0; rc == GSP_OK && i < compare->node_count; i++) {
        const struct gsp_compare_node *node = &compare->nodes[i];
        const uint32_t caller = node->parent < 0 ? GSP_NONE : stacks[node->parent];
        rc = gsp_profile_stack(profile, caller, frames[node->frame], &stacks[i], err);
        const double a = fmin(fmax(node->own[0] * scale, 0), 1e18);
        const double b = fmin(fmax(node->own[1] * scale, 0), 1e18);
        total.stack = stacks[i];
        total.count = (uint64_t)a;
        total.weight = (int64_t)total.count + (int64_t)b;
        if (rc == GSP_OK && total.weight > 0)
            rc = gsp_profile_add_total(profile, &total, err);
    }
    return rc;
}

int gsp_compare__svg(const struct gsp_compare *compare, struct gsp_out *out, struct gsp_err *err)
{
    if (compare->node_count == 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0, "no flame graph: not both have stacks");
    const struct gsp_svg_diff diff = {.name = {compare->name[0], compare->name[1]},
                                      .unit = unit_of(compare),
                                      .is_share = compare->per == GSP_PER_SHARE,
                                      .per = compare->per == GSP_PER_STEP ? "in each step" : ""};
    struct gsp_profile *profile = NULL;
    uint32_t *frames = calloc(compare->function_count + 1, sizeof(*frames));
    uint32_t *stacks = calloc(compare->node_count + 1, sizeof(*stacks));
    int rc = gsp_profile_new(false, &profile, err);
    if (rc == GSP_OK && (!frames || !stacks))
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a flame graph");
    if (rc == GSP_OK)
        rc = add_frames(compare, profile, frames, err);
    if (rc == GSP_OK)
        rc = add_stacks(compare, profile, frames, stacks, err);
    if (rc == GSP_OK)
        rc = gsp_svg_write_diff(profile, &diff, out, err);
    gsp_profile_free(profile);
    free(frames);
    free(stacks);
    return rc;
}
