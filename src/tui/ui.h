/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ui.h -- how a live view reacts to keys and mouse, independent of the terminal.
 *
 * screen.h turns terminal input into struct gsp_ui_key. This module changes the view, or requests
 * what only the owner can do (pause, reset, seek, quit).
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/lines.h"
#include "tui/rows.h"

/* The lines of the screen, from the top. */
#define GSP_UI_LINE_TITLE   0U
#define GSP_UI_LINE_FACTS   1U
#define GSP_UI_LINE_MACHINE 2U
#define GSP_UI_LINE_QUERY   3U
#define GSP_UI_LINE_COLUMNS 4U
#define GSP_UI_LINE_ROWS    5U
#define GSP_UI_FOOTER_LINES 1U

/* Keys that are not characters. All other codes are the character. */
enum gsp_ui_code {
    GSP_KEY_NONE = 0,
    GSP_KEY_ENTER = '\n',
    GSP_KEY_ESCAPE = 27,
    GSP_KEY_ERASE = 127,
    GSP_KEY_UP = 0x110000, /* above all Unicode characters */
    GSP_KEY_DOWN,
    GSP_KEY_LEFT,
    GSP_KEY_RIGHT,
    GSP_KEY_PAGE_UP,
    GSP_KEY_PAGE_DOWN,
    GSP_KEY_HOME,
    GSP_KEY_END,
    GSP_KEY_HELP,
    GSP_KEY_RESIZE,
    GSP_KEY_CLICK,
    GSP_KEY_WHEEL_UP,
    GSP_KEY_WHEEL_DOWN,
};

struct gsp_ui_key {
    int code; /* enum gsp_ui_code or a character */
    unsigned x;
    unsigned y; /* of the mouse */
};

enum gsp_ui_mode { GSP_UI_TABLE, GSP_UI_FILTER, GSP_UI_THREADS, GSP_UI_PROCESSES, GSP_UI_HELP };

/* A line of a list to choose from. */
struct gsp_ui_choice {
    uint32_t id; /* GSP_NO_INDEX: all */
    int64_t weight;
    bool is_main;
    char label[120]; /* safe for a terminal */
};

struct gsp_ui {
    struct gsp_top_query query;
    enum gsp_ui_mode mode;
    bool is_replay;
    bool is_paused;
    size_t cursor; /* the selected row */
    size_t first;  /* the first visible row */
    unsigned width;
    unsigned height;
    char before[GSP_TOP_FILTER_MAX]; /* the filter before it was edited */
    struct gsp_ui_choice *choices;
    size_t choice_count;
    size_t choice;
    /* Requests to the owner, which the owner clears. */
    bool wants_quit;
    bool wants_reset;
    int64_t seek_ns; /* time to move by in a recording */
    bool wants_start;
    bool wants_end;
};

/* One row of the help and the footer. */
struct gsp_ui_help {
    const char *keys;
    const char *text;   /* what they do */
    const char *footer; /* the short name; NULL: not in the footer */
    bool live_only;
    bool replay_only;
};

void gsp_tui_ui_init(struct gsp_ui *ui, bool is_replay);
void gsp_tui_ui_free(struct gsp_ui *ui);

/* Handles a key. rows are those on the screen. */
void gsp_tui_ui_press(struct gsp_ui *ui, const struct gsp_ui_key *key, const struct gsp_top *top,
                      const struct gsp_top_rows *rows);
/* Keeps the cursor within the rows, after they or the size of the screen have changed. */
void gsp_tui_ui_clamp_cursor(struct gsp_ui *ui, size_t row_count);

/* The number of rows that fit on the screen. */
size_t gsp_tui__ui_page(const struct gsp_ui *ui);
/* The help entries of this view; NULL past the last. */
const struct gsp_ui_help *gsp_tui__ui_help_at(const struct gsp_ui *ui, size_t i);

/* Fills ui->choices with the threads or processes to choose from, according to ui->mode: all,
 * then the main thread, then by weight. */
void gsp_tui__ui_list_choices(struct gsp_ui *ui, const struct gsp_top *top);
