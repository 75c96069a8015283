/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interim.h -- the recording so far, written to a file of its own while recording goes on.
 *
 * A child of ours reads back the stream and writes; meanwhile the samples keep coming.
 *
 * Used by: cli/cmd_record.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/tree.h"
#include "record/output_file.h"

struct gsp_interim {
    pid_t writer;    /* at work; 0: none */
    unsigned number; /* of the last file */
    char path[512];  /* of the last file: "profile.1.svg" */
};

/* Starts to write what the stream file holds now; not while a writer is at work.
 * NOTSUP if the output is stdout. */
GSP_MUST_CHECK int gsp_interim_start(struct gsp_interim *interim, const struct gsp_rec_file *file,
                                     const struct gsp_view_options *view, struct gsp_err *err);
/* Is the writer done?  Then writer is 0, and *ok says whether the file is there.
 * wait: not without an answer. */
bool gsp_interim_done(struct gsp_interim *interim, bool wait, bool *ok);
