/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg.h -- a differential flame graph: how the call tree of two recordings differs.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "model/profile.h"

struct gsp_svg_diff {
    struct gsp_sv name[2];                /* of the recordings */
    const struct gsp_profile *profile[2]; /* the recordings; borrowed, weights not negative */
    const struct gsp_profile *sum;        /* their totals together; borrowed */
    enum gsp_unit unit;                   /* of the weights */
    bool is_share;                        /* weights are millionths of all, whatever the unit */
    const char *per;                      /* "in each step", or "" */
};

/* Draws boxes as wide as the sum of both recordings, so that those of only one are visible too.
 * The colour shows which recording has more. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_export_svg_write_diff(const struct gsp_svg_diff *diff, struct gsp_out *out,
                                             struct gsp_err *err);
