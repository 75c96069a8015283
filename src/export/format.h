/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h -- the file formats of profiles: who writes and who reads each.
 *
 * One row per format in export/format.c; a format is chosen by name (--format) or by the
 * file's extension, and for reading by the first bytes when the extension does not tell.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "model/profile.h"
#include "model/tree.h"

/* Input files larger than this are refused with LIMIT, also after decompression. */
#define GSP_INPUT_BYTES_MAX (2ULL << 30)

struct gsp_format {
    const char *name;          /* "speedscope" */
    const char *aliases[2];    /* other names of it; NULL where there are fewer */
    const char *extensions[3]; /* ".speedscope.json"; longest match wins; the first is the usual */
    const char *summary;       /* for help */
    bool needs_samples;        /* the writer wants samples in time order, not only sums */
    /* Either may be NULL.  write puts the whole file into out (finished by the caller);
     * read fills an empty profile from bytes that nobody vouches for.  A NULL view shows all. */
    int (*write)(const struct gsp_profile *profile, const struct gsp_view *view,
                 struct gsp_out *out, struct gsp_err *err);
    int (*read)(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err);
    /* Do these first bytes look like this format?  NULL: cannot tell. */
    bool (*sniff)(struct gsp_sv head);
};

size_t gsp_format_count(void);
const struct gsp_format *gsp_format_at(size_t i);
const struct gsp_format *gsp_format_find(const char *name);    /* or alias; NULL if unknown */
const struct gsp_format *gsp_format_of_path(const char *path); /* by extension; NULL if unknown */

/* Opens, recognises and reads a file into a new profile.  format NULL: find out.
 * Fails with NOFILE, FORMAT, LIMIT, NOTSUP (a format that cannot be read), NOMEM or IO. */
GSP_MUST_CHECK int gsp_format_load(const char *path, const struct gsp_format *format,
                                   bool keep_samples, struct gsp_profile **out,
                                   struct gsp_err *err);
/* Writes path completely or not at all.  Fails with EXISTS unless replace. "-" is stdout. */
GSP_MUST_CHECK int gsp_format_save(const char *path, const struct gsp_format *format,
                                   const struct gsp_profile *profile, const struct gsp_view *view,
                                   bool replace, struct gsp_err *err);
