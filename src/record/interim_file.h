/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interim_file.h -- writes the samples recorded so far to a separate file while recording goes on.
 *
 * A child process reads the stream file and writes, so sampling is not delayed.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/tree.h"
#include "record/output_file.h"

struct gsp_interim_file {
    pid_t writer;    /* the child; 0: none */
    unsigned number; /* of the last file */
    char path[512];  /* of the last file: "profile.1.svg" */
};

/* Starts writing the contents of the stream file. No other writer may be running.
 * Fails with NOTSUP (the output is stdout or a run), IO. */
GSP_MUST_CHECK int gsp_record_interim_file_start(struct gsp_interim_file *interim,
                                                 const struct gsp_output_file *file,
                                                 const struct gsp_view_options *view,
                                                 struct gsp_err *err);
/* Returns whether the writer has exited; then *ok is whether it wrote the file. wait: waits for
 * it. */
bool gsp_record_interim_file_is_done(struct gsp_interim_file *interim, bool wait, bool *ok);
