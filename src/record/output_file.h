/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rec_file.h -- where a recording goes while it is made, and what becomes of it.
 *
 * A recording streams to a .gsp file: to the output itself if that is a .gsp, else to a hidden
 * file beside it, which is converted at the end and removed.  If the conversion fails the
 * hidden file stays, so nothing recorded is lost.  A run keeps it as its profile.gsp.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "export/format.h"
#include "model/tree.h"

struct gsp_rec_file {
    int fd;            /* of the .gsp; -1 when closed */
    char *output;      /* what the user asked for; "-" is stdout */
    char *stream_path; /* the .gsp being written: output itself, or the hidden one */
    bool is_direct;    /* they are the same */
    bool force;
    bool made_folder; /* the output is a run, whose folder was not there */
    const struct gsp_format *format;
};

/* Finds out before anything is recorded whether the output can be written.
 * Fails with EXISTS (unless force), NOWRITE or NOMEM. */
GSP_MUST_CHECK int gsp_rec_file_open(struct gsp_rec_file *file, const char *output,
                                     const struct gsp_format *format, bool force,
                                     struct gsp_err *err);
/* The target could be attached to: an old .gsp that is to be replaced goes now, not before. */
GSP_MUST_CHECK int gsp_rec_file_settle(struct gsp_rec_file *file, struct gsp_err *err);
/* Turns the stream into the output.  On failure the stream stays where it is. */
GSP_MUST_CHECK int gsp_rec_file_finish(struct gsp_rec_file *file,
                                       const struct gsp_view_options *view, struct gsp_err *err);
/* Removes what is there: nothing was recorded. */
void gsp_rec_file_discard(struct gsp_rec_file *file);
void gsp_rec_file_free(struct gsp_rec_file *file); /* closes; removes nothing */
