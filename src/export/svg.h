/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg.h -- a flame graph of two recordings: how each part of the call tree changed.
 *
 * Used by: contrast/.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "model/profile.h"

struct gsp_svg_diff {
    struct gsp_sv name[2];
    enum gsp_unit unit; /* of the values; the profile itself says GSP_UNIT_NS */
    bool is_share;      /* values are millionths of all, whatever the unit */
    const char *per;    /* "in each step", or "" */
};

/* Draws a profile whose sums have, as count, the value of the first recording and, as weight, that
 * of both together.  Boxes are as wide as both together, so that what only one has is seen too;
 * the colour tells which has more.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_svg_write_diff(const struct gsp_profile *profile,
                                      const struct gsp_svg_diff *diff, struct gsp_out *out,
                                      struct gsp_err *err);
