/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.h -- the terminal: draws a live view, reads keys and mouse, restores the terminal.
 *
 * The only file that uses curses. A process has one terminal, so there is one screen.
 *
 * Threads: one owner; a signal handler may call gsp_tui_screen_restore().
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "tui/lines.h"
#include "tui/ui.h"

/* The content of the screen. */
struct gsp_screen_view {
    const struct gsp_top *top;
    const struct gsp_ui *ui;
    const struct gsp_top_facts *facts;
    const struct gsp_top_rows *rows;
};

/* Opens the terminal of stdin and stdout. Fails with NOTSUP if it is not a terminal, or cannot
 * move its cursor. */
GSP_MUST_CHECK int gsp_tui_screen_open(bool color, struct gsp_err *err);
/* Restores the terminal; does nothing if it is not open. */
void gsp_tui_screen_close(void);
/* The same for a signal handler, with strings prepared in advance. */
void gsp_tui_screen_restore(void);

void gsp_tui_screen_size(unsigned *width, unsigned *height);
/* Waits for a key; false if none is pressed within timeout_ms. */
bool gsp_tui_screen_key(int timeout_ms, struct gsp_ui_key *out);
void gsp_tui_screen_draw(const struct gsp_screen_view *view);

/* A view of finished lines: the first is the title, the one at `titles` has the column titles,
 * the last lists the keys. */
struct gsp_screen_lines {
    struct gsp_buf *at;
    size_t count;
    size_t titles;
};
void gsp_tui_screen_draw_lines(const struct gsp_screen_lines *view);
