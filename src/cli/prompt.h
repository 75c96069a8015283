/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt.h -- the interactive SQL prompt: line editing, history, completion.
 *
 * The history is stored in $XDG_STATE_HOME/gsprof/query_history (default: ~/.local/state).
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/query_runner.h"

/* Reads and runs statements until the user quits. Errors of statements are printed and do not
 * affect the returned exit status. */
int gsp_cli__prompt_run(struct gsp_query_runner *runner);

/* Whether the text ends with a semicolon outside of quotes and comments. */
bool gsp_cli__prompt_is_complete(struct gsp_sv sql);

/* The words that can be completed, each followed by a NUL; borrowed. */
struct gsp_words {
    struct gsp_sv all;
};

/* Completes the word before the cursor. Appends to *common what follows `start` in all matches (in
 * the case of the first), and to *list the matches, each followed by a NUL. Returns their
 * number. */
size_t gsp_cli__prompt_complete(const struct gsp_words *words, struct gsp_sv start,
                                struct gsp_buf *common, struct gsp_buf *list);
