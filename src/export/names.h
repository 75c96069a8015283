/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h -- functions by one plain name each, as profile.json has them.
 *
 * A function of the program's main script has its own name ("main"), one of a module has the
 * module's before it ("features.batch_extract_features"), where the file tells the module.
 *
 * Used by: json.c.
 * Threads: never changes once made.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

struct gsp_names {
    struct gsp_profile *pool; /* its strings are the names */
    uint32_t *of_frame;       /* string of the pool; indexed by frame id */
};

/* On success the caller frees *names with gsp_export__names_free().  Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_export__names_fill(const struct gsp_profile *profile,
                                          struct gsp_names *names, struct gsp_err *err);
void gsp_export__names_free(struct gsp_names *names); /* {0} does nothing */

/* "torch.nn.modules.linear" is not known, but "linear" is: the module by the file's name alone.
 * Empty when the path tells nothing.  Borrowed from path. */
struct gsp_sv gsp_export__module_of(struct gsp_sv path);
