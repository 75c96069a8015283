/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- which line of a function stands for it when its lines are one: the heaviest.
 *
 * Used by: report/, digest/.
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

/* What each stack has itself and with what is above it, by stack id (0 is not used).  The caller
 * frees both. */
struct gsp_stack_weights {
    double *own;
    double *total;
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_stack_weights_new(const struct gsp_profile *profile,
                                         struct gsp_stack_weights *out, struct gsp_err *err);
void gsp_stack_weights_free(struct gsp_stack_weights *weights); /* {0} does nothing; leaves {0} */

/* By frame id (0 is not used): the line of the frame's function that has the most own weight; of a
 * function that has none, the line that calls the most.  0: not known.  The caller frees *out,
 * which is NULL on failure.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_hot_lines(const struct gsp_profile *profile,
                                 const struct gsp_stack_weights *weights, uint32_t **out,
                                 struct gsp_err *err);
