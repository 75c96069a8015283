/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- the line that represents a function when its lines are merged: the heaviest one.
 *
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

/* The weight of each stack, without and with its callees, by stack id (0 is not used). The
 * caller frees it with gsp_model_stack_weights_free(). */
struct gsp_stack_weights {
    double *own;
    double *total;
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_model_stack_weights_new(const struct gsp_profile *profile,
                                               struct gsp_stack_weights *out, struct gsp_err *err);
void gsp_model_stack_weights_free(
    struct gsp_stack_weights *weights); /* {0} does nothing; leaves {0} */

/* Finds, by frame id (0 is not used), the line of the frame's function with the most own weight;
 * if the function has none, the line with the most total weight. 0: not known. The caller frees
 * *out, which is NULL on failure. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_model_hot_lines(const struct gsp_profile *profile,
                                       const struct gsp_stack_weights *weights, uint32_t **out,
                                       struct gsp_err *err);
