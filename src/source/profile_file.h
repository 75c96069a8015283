/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_file.h -- profiles on disk: a file in any format, or a run folder.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "export/format.h"
#include "model/tree.h"

/* Name of the format of a run folder. gsp_export_format_find() does not know it: a folder is not a
 * stream of bytes. */
#define GSP_SOURCE_RUN_FORMAT "run"

/* Finds the format to write path in: by name, else by extension. Fails with USAGE. */
GSP_MUST_CHECK int gsp_source_format_find(const char *name, const char *path,
                                          const struct gsp_format **out, struct gsp_err *err);
/* Whether a format from gsp_source_format_find() is a run folder. */
bool gsp_source_is_run(const struct gsp_format *format);

/* Loads a profile from a file or a run folder; "-" is stdin. from is the name of its format;
 * NULL: detect it. */
GSP_MUST_CHECK int gsp_source_profile_load(const char *path, const char *from, bool keep_samples,
                                           struct gsp_profile **out, struct gsp_err *err);

/* Writes a profile to a file or a run folder. */
GSP_MUST_CHECK int gsp_source_profile_save(const char *path, const struct gsp_format *format,
                                           const struct gsp_profile *profile,
                                           const struct gsp_view_options *view, bool force,
                                           struct gsp_err *err);
