/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h -- the file formats of profiles, with the writer and reader of each.
 *
 * The table is in export/format.c. A format is chosen by name (--format) or by the file's
 * extension. When reading, the first bytes decide if the extension does not.
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

/* Larger input files are rejected with LIMIT, also if they exceed it after decompression. */
#define GSP_INPUT_BYTES_MAX (2ULL << 30)

struct gsp_format {
    const char *name;          /* "speedscope" */
    const char *aliases[2];    /* unused elements are NULL */
    const char *extensions[3]; /* ".speedscope.json"; the longest match wins, the first is usual */
    const char *summary;       /* for help */
    bool needs_samples;        /* the writer needs samples in time order, not only totals */
    /* Either may be NULL. write() writes the whole file to out; the caller finishes out. read()
     * fills an empty profile from untrusted bytes. A NULL view shows everything. */
    int (*write)(const struct gsp_profile *profile, const struct gsp_view_options *view,
                 struct gsp_out *out, struct gsp_err *err);
    int (*read)(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err);
    /* Whether a file that begins with these bytes may be in this format. NULL: unknown. */
    bool (*sniff)(struct gsp_sv head);
};

size_t gsp_export_format_count(void);
const struct gsp_format *gsp_export_format_at(size_t i);
const struct gsp_format *gsp_export_format_find(const char *name); /* or alias; NULL if unknown */
const struct gsp_format *
gsp_export_format_of_path(const char *path); /* by extension; NULL if unknown */

/* Reads a file into a new profile. If format is NULL, detects it.
 * Fails with NOFILE, FORMAT, LIMIT, NOTSUP (a format that cannot be read), NOMEM or IO. */
GSP_MUST_CHECK int gsp_export_format_load(const char *path, const struct gsp_format *format,
                                          bool keep_samples, struct gsp_profile **out,
                                          struct gsp_err *err);
/* The same for a file of a folder that another user may have made: only a regular file. */
GSP_MUST_CHECK int gsp_export_format_load_member(const char *path, bool keep_samples,
                                                 struct gsp_profile **out, struct gsp_err *err);
/* Writes the whole file or nothing. "-" is stdout. Fails with EXISTS if the file exists and
 * replace is false, otherwise as write() and gsp_newfile_open() do. */
GSP_MUST_CHECK int gsp_export_format_save(const char *path, const struct gsp_format *format,
                                          const struct gsp_profile *profile,
                                          const struct gsp_view_options *view, bool replace,
                                          struct gsp_err *err);
