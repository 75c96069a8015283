/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_file.h -- profiles on disk: a file in any format, or the folder of a run.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "export/format.h"
#include "model/tree.h"

/* The format to write path in: by name, else by extension.  Fails with USAGE. */
GSP_MUST_CHECK int gsp_source_output_format(const char *name, const char *path,
                                            const struct gsp_format **out, struct gsp_err *err);

/* Loads a profile, also a run's; "-" is stdin.  from is the name of its format, NULL: find out. */
GSP_MUST_CHECK int gsp_source_load_profile(const char *path, const char *from, bool keep_samples,
                                           struct gsp_profile **out, struct gsp_err *err);

/* Writes a profile as a file, or as the folder of a run. */
GSP_MUST_CHECK int gsp_source_save_profile(const char *path, const struct gsp_format *format,
                                           const struct gsp_profile *profile,
                                           const struct gsp_view_options *view, bool force,
                                           struct gsp_err *err);
