/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function_names.h -- short names of functions, for profile.json.
 *
 * A function of the main script keeps its own name ("main"). A function of a module is prefixed
 * with the module's name ("features.batch_extract_features") if the file name gives it.
 *
 * Threads: never changes once made.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

struct gsp_function_names {
    struct gsp_profile *pool; /* holds the names as strings */
    uint32_t *of_frame;       /* string id in the pool, by frame id */
};

/* On success the caller frees *names with gsp_export__function_names_free(). Fails with NOMEM or
 * LIMIT. */
GSP_MUST_CHECK int gsp_export__function_names_fill(const struct gsp_profile *profile,
                                                   struct gsp_function_names *names,
                                                   struct gsp_err *err);
void gsp_export__function_names_free(struct gsp_function_names *names); /* {0} does nothing */

/* Returns the last part of a module's name, which is all that a path gives: "linear", not
 * "torch.nn.modules.linear". Empty if the path is not a module's. Borrowed from path. */
struct gsp_sv gsp_export__module_of(struct gsp_sv path);
