/* SPDX-License-Identifier: Apache-2.0 */
/*
 * help.h -- help, completions and documentation, generated from the option tables.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cli/options.h"
#include "cli/term.h"

/* The list of commands, printed by `gsprof` without arguments. */
void gsp_cli__help_overview(const struct gsp_term *term, struct gsp_buf *out);
/* The help of a command: -h fits one screen; --help (whole) has every option and example. */
void gsp_cli__help_command(const struct gsp_command *command, bool whole,
                           const struct gsp_term *term, struct gsp_buf *out);
/* A page of docs/cli. */
void gsp_cli__help_markdown(const struct gsp_command *command, struct gsp_buf *out);
void gsp_cli__help_markdown_index(struct gsp_buf *out);

/* The i-th topic of `gsprof help`, NULL past the last. */
const char *gsp_cli__help_topic_at(size_t i);
/* Returns false if the topic does not exist. */
bool gsp_cli__help_topic(const char *name, struct gsp_buf *out);

/* "bash", "zsh", "fish"; NULL past the last. */
const char *gsp_cli__complete_shell_at(size_t i);
/* Appends the completion script of a shell; returns false if the shell is unknown. */
bool gsp_cli__complete_script(const char *shell, struct gsp_buf *out);
