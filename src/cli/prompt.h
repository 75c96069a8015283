/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt.h -- statements typed one after the other: line editing, history, completion.
 *
 * The history is kept in $XDG_STATE_HOME/gsprof/query_history (~/.local/state without it).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/query_runner.h"

/* Reads and asks until the user leaves; worth the exit status of the program: errors of
 * statements are told and forgotten. */
int gsp_prompt_run(struct gsp_asker *asker);

/* Whether a text ends with a semicolon that ends the statement: not one in quotes or in a
 * comment. */
bool gsp_prompt_is_whole(struct gsp_sv sql);

/* The words that can be completed, each ended by a NUL; borrowed. */
struct gsp_words {
    struct gsp_sv all;
};

/* What can follow: start is the word before the cursor.  *common gets what all matches go on with
 * (in the letters of the first), *list the matches, each ended by a NUL.  Worth their number. */
size_t gsp_prompt_complete(const struct gsp_words *words, struct gsp_sv start,
                           struct gsp_buf *common, struct gsp_buf *list);
