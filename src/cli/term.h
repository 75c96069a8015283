/* SPDX-License-Identifier: Apache-2.0 */
/*
 * term.h -- terminal output: colour, width, a progress line.
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
    bool has_status; /* a progress line is on the screen */
    unsigned width;  /* columns; 80 if fd is not a terminal */
};

/* when is "auto", "always" or "never"; auto obeys NO_COLOR and CLICOLOR_FORCE. */
void gsp_cli__term_init(struct gsp_term *term, int fd, const char *when);

/* Escape sequences, or "" without colour. */
const char *gsp_cli__term_bold(const struct gsp_term *term);
const char *gsp_cli__term_dim(const struct gsp_term *term);
const char *gsp_cli__term_red(const struct gsp_term *term);
const char *gsp_cli__term_green(const struct gsp_term *term);
const char *gsp_cli__term_yellow(const struct gsp_term *term);
const char *gsp_cli__term_off(const struct gsp_term *term);

/* Writes the buffer and clears it; ignores write errors. */
void gsp_cli__term_write(struct gsp_term *term, struct gsp_buf *text);
/* Clears the progress line and prints one formatted line; adds the newline. */
void gsp_cli__term_line(struct gsp_term *term, const char *fmt, ...) GSP_PRINTF(2, 3);
/* Replaces the progress line; does nothing if fd is not a terminal. */
void gsp_cli__term_status(struct gsp_term *term, const char *fmt, ...) GSP_PRINTF(2, 3);
/* Clears the progress line. */
void gsp_cli__term_clear_status(struct gsp_term *term);

/* Appends text, wrapped at spaces to width columns. The first line starts at column indent; all
 * others are indented by that many spaces. */
void gsp_cli__term_wrap(struct gsp_buf *out, const char *text, size_t indent, size_t width);
