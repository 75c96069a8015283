/* SPDX-License-Identifier: Apache-2.0 */
/*
 * term.h -- manners at a terminal: colour only where wanted, width, one line of progress.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"

struct gsp_term {
    int fd; /* borrowed */
    bool is_tty;
    bool color;
    bool has_status; /* a progress line stands on the screen */
    unsigned width;  /* columns; 80 when it is no terminal */
};

/* when is "auto", "always" or "never"; auto obeys NO_COLOR and CLICOLOR_FORCE. */
void gsp_term_init(struct gsp_term *term, int fd, const char *when);

/* Escape sequences, or "" without colour. */
const char *gsp_term_bold(const struct gsp_term *term);
const char *gsp_term_dim(const struct gsp_term *term);
const char *gsp_term_red(const struct gsp_term *term);
const char *gsp_term_green(const struct gsp_term *term);
const char *gsp_term_yellow(const struct gsp_term *term);
const char *gsp_term_off(const struct gsp_term *term);

/* Writes the buffer and empties it; a reader that went away is no error of ours. */
void gsp_term_write(struct gsp_term *term, struct gsp_buf *text);
/* One formatted line, newline added; a progress line is wiped first. */
void gsp_term_line(struct gsp_term *term, const char *fmt, ...) GSP_PRINTF(2, 3);
/* Replaces the progress line; nothing when it is no terminal. */
void gsp_term_status(struct gsp_term *term, const char *fmt, ...) GSP_PRINTF(2, 3);
void gsp_term_wipe(struct gsp_term *term);

/* Appends text broken at blanks so that no line passes width; every line but the first
 * starts with indent blanks, and the first is taken to start at that column. */
void gsp_term_wrap(struct gsp_buf *out, const char *text, size_t indent, size_t width);
