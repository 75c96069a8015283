/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.h -- the terminal: draws a live view on it, hears keys and mouse, gives it back as it
 * was.
 *
 * The only file that sees curses.  There is one terminal, so there is one screen.
 *
 * Used by: cli/ (top).
 * Threads: one owner; gsp_screen_restore() may be called by a signal handler.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "tui/lines.h"
#include "tui/ui.h"

/* Everything that is on the screen. */
struct gsp_screen_view {
    const struct gsp_top *top;
    const struct gsp_ui *ui;
    const struct gsp_top_facts *facts;
    const struct gsp_top_rows *rows;
};

/* Takes the terminal of stdin and stdout.  Fails with NOTSUP when it is none, or one that cannot
 * move its cursor. */
GSP_MUST_CHECK int gsp_screen_open(bool color, struct gsp_err *err);
/* Gives it back; does nothing when it was not taken. */
void gsp_screen_close(void);
/* The same from a signal handler, by what was noted beforehand. */
void gsp_screen_restore(void);

void gsp_screen_size(unsigned *width, unsigned *height);
/* The next key that was pressed; false when there is none within timeout_ms. */
bool gsp_screen_key(int timeout_ms, struct gsp_ui_key *out);
void gsp_screen_draw(const struct gsp_screen_view *view);

/* A view that is made of lines already: the first is the title, the one at `titles` the titles of
 * a table, the last the keys. */
struct gsp_screen_lines {
    struct gsp_buf *at;
    size_t count;
    size_t titles;
};
void gsp_screen_draw_lines(const struct gsp_screen_lines *view);
