/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_file.h -- the output of `gsprof record`, during and after the recording.
 *
 * A recording is a .gsp stream: the output itself if that is a .gsp file, else a hidden file next
 * to it, which is converted at the end and removed. If the conversion fails, the hidden file stays,
 * so that no sample is lost. A run keeps the stream as its profile.gsp.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "export/format.h"
#include "model/tree.h"

struct gsp_output_file {
    int fd;            /* of the stream; -1: closed */
    char *output;      /* as given by the user; "-" is stdout */
    char *stream_path; /* the .gsp file: output itself, or the hidden file */
    bool is_direct;    /* the stream is the output */
    bool force;
    bool made_folder; /* the output is a run whose folder did not exist */
    const struct gsp_format *format;
};

/* Opens the stream, so that an output that cannot be written fails before the recording.
 * Fails with EXISTS (unless force), NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_record_output_file_open(struct gsp_output_file *file, const char *output,
                                               const struct gsp_format *format, bool force,
                                               struct gsp_err *err);
/* Replaces an old .gsp file or run. To be called once the target is attached: until then the old
 * output stays. Fails with NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_record_output_file_replace_old(struct gsp_output_file *file,
                                                      struct gsp_err *err);
/* Converts the stream to the output. On failure the stream stays. */
GSP_MUST_CHECK int gsp_record_output_file_finish(struct gsp_output_file *file,
                                                 const struct gsp_view_options *view,
                                                 struct gsp_err *err);
/* Removes all files: no sample was recorded. Frees. */
void gsp_record_output_file_discard(struct gsp_output_file *file);
void gsp_record_output_file_free(struct gsp_output_file *file); /* closes; removes nothing */
