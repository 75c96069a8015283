/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h -- what to record of the captured stacks: which threads, which frames, and how imports
 * and garbage collections are marked. Frames of the package that gsprof loads into a program are
 * never recorded: their time counts for their callers.
 *
 * Stacks are rewritten within the profile, each once, so their origin does not matter.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

#define GSP_MARK_GC "(garbage collection)"

/* Extended regular expressions, matched anywhere in the text; NULL: all. */
struct gsp_select_opts {
    const char *include; /* only frames whose function or file matches */
    const char *exclude; /* not the frames whose function or file matches */
    const char *thread;  /* only threads whose name matches */
    const char *below; /* only the callees of matching functions, without these and their callers */
    const char *names; /* a file with lines of a path, a tab and the name to show instead */
    bool import_frames; /* show the frames of the import system instead of one mark */
};

struct gsp_select; /* opaque */

/* Fails with USAGE if text is not a regular expression. */
GSP_MUST_CHECK int gsp_sample_select_check(const char *text, struct gsp_err *err);

/* Copies the texts of opts; profile is borrowed. Fails with USAGE or NOMEM, and with the error
 * of reading the file of names. */
GSP_MUST_CHECK int gsp_sample__select_new(const struct gsp_select_opts *opts,
                                          struct gsp_profile *profile, struct gsp_select **out,
                                          struct gsp_err *err);
void gsp_sample__select_free(struct gsp_select *select); /* NULL does nothing */

bool gsp_sample__select_thread(const struct gsp_select *select, struct gsp_sv name);

/* The stack to record for this one; GSP_NONE if none of its frames is recorded. in_gc: the
 * thread was collecting garbage. */
GSP_MUST_CHECK int gsp_sample__select_stack(struct gsp_select *select, uint32_t stack, bool in_gc,
                                            uint32_t *out, struct gsp_err *err);
