/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/ui.h"

#include <stdlib.h>

#include "base/time.h"

#define WHEEL_ROWS 3U
#define SEEK_NS    (5 * GSP_NS_PER_S)

/* The context of an action. */
struct act {
    struct gsp_ui *ui;
    const struct gsp_top *top;
    const struct gsp_top_rows *rows;
    const struct gsp_ui_key *key;
};

static void do_sort(const struct act *act)
{
    act->ui->query.sort = (enum gsp_top_column)(act->key->code - '1');
}

static void do_sort_next(const struct act *act)
{
    unsigned step = act->key->code == '>' ? 1U : GSP_TOP_COLUMNS - 1U;
    unsigned next = ((unsigned)act->ui->query.sort + step) % GSP_TOP_COLUMNS;
    act->ui->query.sort = (enum gsp_top_column)next;
}

static void do_pause(const struct act *act)
{
    act->ui->is_paused = !act->ui->is_paused;
}

static void move(struct gsp_ui *ui, size_t count, int64_t by)
{
    int64_t last = count ? (int64_t)count - 1 : 0;
    int64_t to = (int64_t)ui->cursor + by;
    to = to < 0 ? 0 : to;
    ui->cursor = (size_t)(to > last ? last : to);
}

static void do_move(const struct act *act)
{
    int64_t page = (int64_t)gsp_tui__ui_page(act->ui);
    int64_t by = 0;
    switch (act->key->code) {
    case GSP_KEY_UP:
    case 'k':
        by = -1;
        break;
    case GSP_KEY_DOWN:
    case 'j':
        by = 1;
        break;
    case GSP_KEY_PAGE_UP:
        by = -page;
        break;
    case GSP_KEY_PAGE_DOWN:
        by = page;
        break;
    case GSP_KEY_WHEEL_UP:
        by = -(int64_t)WHEEL_ROWS;
        break;
    case GSP_KEY_WHEEL_DOWN:
        by = WHEEL_ROWS;
        break;
    default:
        break;
    }
    move(act->ui, act->rows->count, by);
}

static void do_first(const struct act *act)
{
    act->ui->cursor = 0;
}

static void do_last(const struct act *act)
{
    act->ui->cursor = act->rows->count ? act->rows->count - 1 : 0;
}

/* In a recording, Home and End move in time; in a live view, in the table. */
static void do_home(const struct act *act)
{
    if (act->ui->is_replay)
        act->ui->wants_start = true;
    else
        do_first(act);
}

static void do_end(const struct act *act)
{
    if (act->ui->is_replay)
        act->ui->wants_end = true;
    else
        do_last(act);
}

static void do_fold(const struct act *act)
{
    const struct gsp_ui *ui = act->ui;
    if (!ui->query.tree || ui->cursor >= act->rows->count)
        return;
    const struct gsp_top_row *row = &act->rows->rows[ui->cursor];
    if (row->has_children)
        gsp_tui__top_query_toggle(&act->ui->query, row->path);
}

static void do_fold_all(const struct act *act)
{
    act->ui->query.folded = act->key->code == '-';
    gsp_hmap_clear(&act->ui->query.toggled);
}

/* Left and right: seek in a recording; fold and open in a live view. */
static void do_side(const struct act *act)
{
    struct gsp_ui *ui = act->ui;
    bool right = act->key->code == GSP_KEY_RIGHT;
    if (ui->is_replay) {
        ui->seek_ns += right ? SEEK_NS : -SEEK_NS;
        return;
    }
    if (!ui->query.tree || ui->cursor >= act->rows->count)
        return;
    const struct gsp_top_row *row = &act->rows->rows[ui->cursor];
    if (row->has_children && row->is_open != right)
        gsp_tui__top_query_toggle(&ui->query, row->path);
    else if (!right && row->parent != GSP_NO_INDEX)
        ui->cursor = row->parent;
}

static void do_filter(const struct act *act)
{
    struct gsp_ui *ui = act->ui;
    memcpy(ui->before, ui->query.filter, sizeof(ui->before));
    ui->mode = GSP_UI_FILTER;
}

static void do_choose(const struct act *act)
{
    act->ui->mode = act->key->code == 't' ? GSP_UI_THREADS : GSP_UI_PROCESSES;
    gsp_tui__ui_list_choices(act->ui, act->top);
}

static void do_lines(const struct act *act)
{
    struct gsp_view_options *view = &act->ui->query.view;
    view->by_function = !view->by_function;
}

static void do_tree(const struct act *act)
{
    struct gsp_top_query *query = &act->ui->query;
    query->tree = !query->tree;
    act->ui->cursor = 0;
    /* The heaviest branch of a tree is the one with the largest total. */
    if (query->tree && query->sort == GSP_TOP_OWN_PCT)
        query->sort = GSP_TOP_TOTAL_PCT;
    else if (!query->tree && query->sort == GSP_TOP_TOTAL_PCT)
        query->sort = GSP_TOP_OWN_PCT;
}

static void do_split_threads(const struct act *act)
{
    act->ui->query.view.threads = !act->ui->query.view.threads;
}

static void do_reset(const struct act *act)
{
    act->ui->wants_reset = true;
    act->ui->cursor = 0;
}

static void do_help(const struct act *act)
{
    act->ui->mode = GSP_UI_HELP;
}

static void do_quit(const struct act *act)
{
    act->ui->wants_quit = true;
}

/* Removes all filters. */
static void do_escape(const struct act *act)
{
    struct gsp_top_query *query = &act->ui->query;
    query->filter[0] = '\0';
    query->thread = GSP_NO_INDEX;
    query->process = GSP_NO_INDEX;
}

static void do_click(const struct act *act)
{
    struct gsp_ui *ui = act->ui;
    const struct gsp_ui_key *key = act->key;
    if (key->y == GSP_UI_LINE_COLUMNS) {
        struct gsp_top_layout layout;
        gsp_tui__layout_init(ui->width, &layout);
        enum gsp_top_column column = gsp_tui__top_layout_at(&layout, key->x);
        if (column < GSP_TOP_COLUMNS)
            ui->query.sort = column;
        return;
    }
    if (key->y < GSP_UI_LINE_ROWS || key->y >= GSP_UI_LINE_ROWS + gsp_tui__ui_page(ui))
        return;
    size_t row = ui->first + key->y - GSP_UI_LINE_ROWS;
    if (row >= act->rows->count)
        return;
    /* The first click selects a row, a second one folds or opens it. */
    if (row == ui->cursor)
        do_fold(act);
    ui->cursor = row;
}

static const struct {
    int code;
    void (*act)(const struct act *act);
} ACTIONS[] = {
    {'1', do_sort},
    {'2', do_sort},
    {'3', do_sort},
    {'4', do_sort},
    {'5', do_sort},
    {'6', do_sort},
    {'<', do_sort_next},
    {'>', do_sort_next},
    {' ', do_pause},
    {GSP_KEY_UP, do_move},
    {GSP_KEY_DOWN, do_move},
    {'k', do_move},
    {'j', do_move},
    {GSP_KEY_PAGE_UP, do_move},
    {GSP_KEY_PAGE_DOWN, do_move},
    {GSP_KEY_WHEEL_UP, do_move},
    {GSP_KEY_WHEEL_DOWN, do_move},
    {GSP_KEY_HOME, do_home},
    {GSP_KEY_END, do_end},
    {'g', do_first},
    {'G', do_last},
    {GSP_KEY_LEFT, do_side},
    {GSP_KEY_RIGHT, do_side},
    {GSP_KEY_ENTER, do_fold},
    {'+', do_fold_all},
    {'-', do_fold_all},
    {'/', do_filter},
    {'t', do_choose},
    {'p', do_choose},
    {'l', do_lines},
    {'v', do_tree},
    {'a', do_split_threads},
    {'r', do_reset},
    {'?', do_help},
    {GSP_KEY_HELP, do_help},
    {GSP_KEY_ESCAPE, do_escape},
    {'q', do_quit},
    {GSP_KEY_CLICK, do_click},
};

static const struct gsp_ui_help HELP[] = {
    {.keys = "?, F1", .text = "this help", .footer = "help"},
    {.keys = "q", .text = "quit", .footer = "quit"},
    {.keys = "space", .text = "pause and resume; nothing is added while paused", .footer = "pause"},
    {.keys = "1 2 3 4", .text = "sort by own %, total %, own time, total time", .footer = "sort"},
    {.keys = "< >", .text = "sort by the next column; or click a column title"},
    {.keys = "/", .text = "show only functions or files that contain a text", .footer = "find"},
    {.keys = "t", .text = "show only one thread", .footer = "thread"},
    {.keys = "p", .text = "show only one process", .footer = "proc"},
    {.keys = "Esc", .text = "show everything again"},
    {.keys = "l", .text = "lines or functions", .footer = "lines"},
    {.keys = "v", .text = "call tree or list; a tree starts with the processes", .footer = "tree"},
    {.keys = "Enter", .text = "fold or open a branch of the tree; or click it twice"},
    {.keys = "+ -", .text = "open or fold all branches"},
    {.keys = "a", .text = "show threads separately in the tree"},
    {.keys = "r", .text = "reset all sums", .footer = "reset", .live_only = true},
    {.keys = "r", .text = "reset all sums", .replay_only = true},
    {.keys = "up down PgUp PgDn", .text = "move in the table; also the mouse wheel"},
    {.keys = "Home End", .text = "first and last row; also g and G", .live_only = true},
    {.keys = "left right",
     .text = "seek 5 seconds back or forward",
     .footer = "seek",
     .replay_only = true},
    {.keys = "Home End",
     .text = "start and end of the recording; g and G: of the table",
     .replay_only = true},
};

void gsp_tui_ui_init(struct gsp_ui *ui, bool is_replay)
{
    *ui = (struct gsp_ui){
        .is_replay = is_replay, .width = GSP_TOP_WIDTH_MIN, .height = GSP_TOP_HEIGHT_MIN};
    gsp_tui__top_query_init(&ui->query);
}

void gsp_tui_ui_free(struct gsp_ui *ui)
{
    gsp_tui__top_query_free(&ui->query);
    free(ui->choices);
    ui->choices = NULL;
    ui->choice_count = 0;
}

/* Appends a printable character as UTF-8, if it fits. */
static void append_char(char *filter, size_t len, int code)
{
    unsigned c = (unsigned)code;
    size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    if (code < ' ' || code == GSP_KEY_ERASE || code >= GSP_KEY_UP ||
        len + more + 1 >= GSP_TOP_FILTER_MAX)
        return;
    static const unsigned char HEADS[] = {0, 0xc0, 0xe0, 0xf0};
    filter[len++] = (char)(HEADS[more] | c >> (6 * more));
    while (more-- > 0)
        filter[len++] = (char)(0x80U | (c >> (6 * more) & 0x3fU));
    filter[len] = '\0';
}

/* Handles keys while the filter is edited. Each letter takes effect at once. */
static void edit_filter(struct gsp_ui *ui, int code)
{
    char *filter = ui->query.filter;
    size_t len = strlen(filter);
    if (code == GSP_KEY_ENTER) {
        ui->mode = GSP_UI_TABLE;
    } else if (code == GSP_KEY_ESCAPE) {
        memcpy(filter, ui->before, sizeof(ui->before));
        ui->mode = GSP_UI_TABLE;
    } else if (code == GSP_KEY_ERASE) {
        /* Remove all bytes of the character. */
        while (len > 0 && ((unsigned char)filter[len - 1] & 0xc0U) == 0x80U)
            filter[--len] = '\0';
        if (len > 0)
            filter[len - 1] = '\0';
    } else {
        append_char(filter, len, code);
    }
    ui->cursor = 0;
}

static void choose(struct gsp_ui *ui)
{
    if (ui->choice >= ui->choice_count)
        return;
    uint32_t id = ui->choices[ui->choice].id;
    if (ui->mode == GSP_UI_PROCESSES) {
        ui->query.process = id;
        ui->query.thread = GSP_NO_INDEX; /* the thread may belong to another process */
    } else {
        ui->query.thread = id;
    }
    ui->cursor = 0;
}

static void press_in_list(struct gsp_ui *ui, int code)
{
    size_t last = ui->choice_count ? ui->choice_count - 1 : 0;
    switch (code) {
    case GSP_KEY_UP:
    case GSP_KEY_WHEEL_UP:
        ui->choice -= ui->choice > 0;
        return;
    case GSP_KEY_DOWN:
    case GSP_KEY_WHEEL_DOWN:
        ui->choice += ui->choice < last;
        return;
    case GSP_KEY_HOME:
        ui->choice = 0;
        return;
    case GSP_KEY_END:
        ui->choice = last;
        return;
    case GSP_KEY_ENTER:
        choose(ui);
        break;
    case GSP_KEY_ESCAPE:
    case 'q':
        break;
    default:
        return;
    }
    ui->mode = GSP_UI_TABLE;
}

static void press_in_table(struct gsp_ui *ui, const struct act *act)
{
    for (size_t i = 0; i < GSP_COUNT(ACTIONS); i++) {
        if (ACTIONS[i].code == act->key->code) {
            ACTIONS[i].act(act);
            break;
        }
    }
    gsp_tui_ui_clamp_cursor(ui, act->rows->count);
}

void gsp_tui_ui_press(struct gsp_ui *ui, const struct gsp_ui_key *key, const struct gsp_top *top,
                      const struct gsp_top_rows *rows)
{
    const struct act act = {ui, top, rows, key};
    switch (ui->mode) {
    case GSP_UI_TABLE:
        press_in_table(ui, &act);
        break;
    case GSP_UI_FILTER:
        edit_filter(ui, key->code);
        break;
    case GSP_UI_THREADS:
    case GSP_UI_PROCESSES:
        press_in_list(ui, key->code);
        break;
    case GSP_UI_HELP:
        if (key->code != GSP_KEY_RESIZE)
            ui->mode = GSP_UI_TABLE;
        break;
    }
}

size_t gsp_tui__ui_page(const struct gsp_ui *ui)
{
    unsigned used = GSP_UI_LINE_ROWS + GSP_UI_FOOTER_LINES;
    return ui->height > used ? ui->height - used : 1;
}

void gsp_tui_ui_clamp_cursor(struct gsp_ui *ui, size_t row_count)
{
    size_t page = gsp_tui__ui_page(ui);
    if (ui->cursor >= row_count)
        ui->cursor = row_count ? row_count - 1 : 0;
    if (ui->first > ui->cursor)
        ui->first = ui->cursor;
    if (ui->cursor - ui->first >= page)
        ui->first = ui->cursor - page + 1;
    /* No empty lines at the end while earlier rows exist. */
    if (ui->first + page > row_count)
        ui->first = row_count > page ? row_count - page : 0;
}

const struct gsp_ui_help *gsp_tui__ui_help_at(const struct gsp_ui *ui, size_t i)
{
    for (size_t k = 0; k < GSP_COUNT(HELP); k++) {
        if (ui->is_replay ? HELP[k].live_only : HELP[k].replay_only)
            continue;
        if (i-- == 0)
            return &HELP[k];
    }
    return NULL;
}
