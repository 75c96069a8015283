/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h -- what is recorded of the stacks that were read: which threads, which frames, and
 * how imports and garbage collections are marked.  Frames of the package that gsprof loads into a
 * program are never recorded: what they take counts for who called them.
 *
 * Stacks are rewritten within the profile, each once, so it does not matter who made them.
 *
 * Used by: sample/record.c, cli/ (to check an expression before anything is started).
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

/* Extended regular expressions, found anywhere in the text; NULL: all. */
struct gsp_select_opts {
    const char *include; /* only frames whose function or file matches */
    const char *exclude; /* no frames whose function or file matches */
    const char *thread;  /* only threads whose name matches */
    const char *below;   /* only what functions that match call, without them and their callers */
    const char *names;   /* a file with lines of a path, a tab and what to call it */
    bool import_frames;  /* show the frames of the import system, instead of one mark for them */
};

struct gsp_select; /* opaque */

/* USAGE if text is no regular expression. */
GSP_MUST_CHECK int gsp_select_check(const char *text, struct gsp_err *err);

/* opts' texts are not kept; profile is borrowed.  Fails with USAGE or NOMEM, and as names cannot be
 * read. */
GSP_MUST_CHECK int gsp_select_new(const struct gsp_select_opts *opts, struct gsp_profile *profile,
                                  struct gsp_select **out, struct gsp_err *err);
void gsp_select_free(struct gsp_select *select); /* NULL does nothing */

bool gsp_select_thread(const struct gsp_select *select, struct gsp_sv name);

/* The stack to record for this one; GSP_NONE when no frame of it is wanted.
 * in_gc: the thread was collecting garbage. */
GSP_MUST_CHECK int gsp_select_stack(struct gsp_select *select, uint32_t stack, bool in_gc,
                                    uint32_t *out, struct gsp_err *err);
