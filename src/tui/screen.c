/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Functions instead of macros: those of curses do not pass -Wconversion. */
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <term.h>

#define ESCAPE_DELAY_MS 25
#define HOT_PCT         20.0
#define WARM_PCT        5.0

enum { PAIR_HOT = 1, PAIR_WARM };

static struct {
    bool is_open;
    bool is_utf8;
    SCREEN *screen;
    struct termios before; /* the original settings */
    char leave[128];       /* the sequence that restores the terminal */
} state;

/* Appends a terminfo string to the restoring sequence. */
static void add_leave(size_t *len, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (text && *len + n < sizeof(state.leave)) {
        memcpy(state.leave + *len, text, n + 1);
        *len += n;
    }
}

static const char *capability(const char *name)
{
    char copy[16];
    snprintf(copy, sizeof(copy), "%s", name); /* the parameter of older versions is not const */
    const char *text = tigetstr(copy);
    /* NULL: missing; -1: not a string. */
    return text == (const char *)-1 ? NULL : text; /* NOLINT(performance-no-int-to-ptr) */
}

static void prepare_restore(void)
{
    size_t len = 0;
    state.leave[0] = '\0';
    add_leave(&len, "\033[?1000l\033[?1006l"); /* mouse off */
    add_leave(&len, capability("sgr0"));
    add_leave(&len, capability("rmkx"));
    add_leave(&len, capability("cnorm"));
    add_leave(&len, capability("rmcup"));
}

static void set_up(bool color)
{
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    leaveok(stdscr, TRUE);
    set_escdelay(ESCAPE_DELAY_MS);
    curs_set(0);
    mouseinterval(0);
    mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
    if (color && has_colors()) {
        start_color();
        use_default_colors();
        init_pair(PAIR_HOT, COLOR_RED, -1);
        init_pair(PAIR_WARM, COLOR_YELLOW, -1);
    }
}

int gsp_tui_screen_open(bool color, struct gsp_err *err)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s is not a terminal",
                           isatty(STDIN_FILENO) ? "the output" : "the input");
    if (tcgetattr(STDIN_FILENO, &state.before) < 0)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the input is not a terminal");
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    state.is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    const char *name = getenv("TERM");
    /* newterm() returns an error where initscr() would exit. */
    state.screen = newterm(name, stdout, stdin);
    if (!state.screen)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the terminal \"%.60s\" is unknown or cannot move its cursor",
                           name ? name : "");
    prepare_restore();
    set_up(color);
    state.is_open = true;
    return GSP_OK;
}

void gsp_tui_screen_close(void)
{
    if (!state.is_open)
        return;
    state.is_open = false;
    mousemask(0, NULL);
    endwin();
    delscreen(state.screen);
    state.screen = NULL;
}

void gsp_tui_screen_restore(void)
{
    if (!state.is_open)
        return;
    ssize_t n = write(STDOUT_FILENO, state.leave, strlen(state.leave));
    (void)n; /* no way to report an error */
    tcsetattr(STDIN_FILENO, TCSANOW, &state.before);
}

void gsp_tui_screen_size(unsigned *width, unsigned *height)
{
    int y = getmaxy(stdscr);
    int x = getmaxx(stdscr);
    *width = x > 0 ? (unsigned)x : 0;
    *height = y > 0 ? (unsigned)y : 0;
}

static void read_mouse(struct gsp_ui_key *out)
{
    MEVENT event;
    out->code = GSP_KEY_NONE;
    if (getmouse(&event) != OK)
        return;
    out->x = event.x > 0 ? (unsigned)event.x : 0;
    out->y = event.y > 0 ? (unsigned)event.y : 0;
    if (event.bstate & BUTTON1_PRESSED)
        out->code = GSP_KEY_CLICK;
    else if (event.bstate & BUTTON4_PRESSED)
        out->code = GSP_KEY_WHEEL_UP;
    else if (event.bstate & BUTTON5_PRESSED)
        out->code = GSP_KEY_WHEEL_DOWN;
}

static int code_of(wint_t key)
{
    static const struct {
        wint_t key;
        int code;
    } KEYS[] = {
        {KEY_UP, GSP_KEY_UP},        {KEY_DOWN, GSP_KEY_DOWN},       {KEY_LEFT, GSP_KEY_LEFT},
        {KEY_RIGHT, GSP_KEY_RIGHT},  {KEY_PPAGE, GSP_KEY_PAGE_UP},   {KEY_NPAGE, GSP_KEY_PAGE_DOWN},
        {KEY_HOME, GSP_KEY_HOME},    {KEY_END, GSP_KEY_END},         {KEY_F(1), GSP_KEY_HELP},
        {KEY_ENTER, GSP_KEY_ENTER},  {KEY_BACKSPACE, GSP_KEY_ERASE}, {KEY_DC, GSP_KEY_ERASE},
        {KEY_RESIZE, GSP_KEY_RESIZE}};
    for (size_t i = 0; i < GSP_COUNT(KEYS); i++)
        if (KEYS[i].key == key)
            return KEYS[i].code;
    return GSP_KEY_NONE;
}

bool gsp_tui_screen_key(int timeout_ms, struct gsp_ui_key *out)
{
    wint_t key = 0;
    *out = (struct gsp_ui_key){0};
    wtimeout(stdscr, timeout_ms);
    int rc = wget_wch(stdscr, &key);
    if (rc == ERR)
        return false;
    if (rc == KEY_CODE_YES) {
        if (key == KEY_MOUSE)
            read_mouse(out);
        else
            out->code = code_of(key);
        return true;
    }
    if (key == '\r')
        key = '\n';
    else if (key == '\b')
        key = GSP_KEY_ERASE;
    out->code = (int)key;
    return true;
}

/* Draws one line in the full width. */
static void put_line(unsigned y, struct gsp_buf *line, unsigned width, attr_t attr)
{
    gsp_auto_buf fit = {0};
    gsp_tui__text_fit(&fit, gsp_buf_sv(line), width, false);
    for (size_t i = 0; !state.is_utf8 && i < fit.len; i++)
        if ((unsigned char)fit.p[i] >= 0x80)
            fit.p[i] = '?';
    wattrset(stdscr, (int)attr);
    if (fit.len)
        mvwaddnstr(stdscr, (int)y, 0, fit.p, (int)fit.len);
    wattrset(stdscr, (int)A_NORMAL);
    gsp_buf_clear(line);
}

static void draw_head(const struct gsp_screen_view *view)
{
    const struct gsp_ui *ui = view->ui;
    gsp_auto_buf line = {0};
    gsp_tui__line_title(view->facts, &line);
    put_line(GSP_UI_LINE_TITLE, &line, ui->width, A_BOLD);
    gsp_tui__line_facts(view->facts, &line);
    put_line(GSP_UI_LINE_FACTS, &line, ui->width, A_NORMAL);
    gsp_tui__line_machine(view->facts, &line);
    const size_t gpu_column = line.len;
    gsp_tui__line_gpu(view->facts, &line);
    put_line(GSP_UI_LINE_MACHINE, &line, ui->width, A_NORMAL);
    /* No figures of a GPU are shown here: dimmed. */
    if (gpu_column < ui->width)
        mvwchgat(stdscr, GSP_UI_LINE_MACHINE, (int)gpu_column, -1, A_DIM, 0, NULL);
    if (ui->mode == GSP_UI_FILTER)
        gsp_buf_printf(&line, "filter: %s_   (Enter: apply, Esc: cancel)", ui->query.filter);
    else
        gsp_tui__line_query(view->top, &ui->query, &line);
    put_line(GSP_UI_LINE_QUERY, &line, ui->width, ui->mode == GSP_UI_FILTER ? A_BOLD : A_NORMAL);
}

static attr_t attr_of_row(const struct gsp_top_row *row)
{
    attr_t attr = A_NORMAL;
    if (row->own_pct >= HOT_PCT)
        attr |= A_BOLD | (attr_t)COLOR_PAIR(PAIR_HOT);
    else if (row->own_pct >= WARM_PCT)
        attr |= (attr_t)COLOR_PAIR(PAIR_WARM);
    return attr;
}

static void draw_table(const struct gsp_screen_view *view)
{
    const struct gsp_ui *ui = view->ui;
    const struct gsp_top_rows *rows = view->rows;
    gsp_auto_buf line = {0};
    struct gsp_top_layout layout;
    gsp_tui__layout_init(ui->width, &layout);
    gsp_tui__line_columns(&layout, ui->query.sort, &line);
    put_line(GSP_UI_LINE_COLUMNS, &line, ui->width, A_REVERSE);
    for (size_t i = 0; i < gsp_tui__ui_page(ui); i++) {
        size_t k = ui->first + i;
        attr_t attr = A_NORMAL;
        if (k < rows->count) {
            gsp_tui__line_row(&layout, gsp_tui__top_profile(view->top), &ui->query, &rows->rows[k],
                              &line);
            attr = attr_of_row(&rows->rows[k]);
            if (k == ui->cursor)
                attr |= A_REVERSE;
        } else if (i == 1 && rows->count == 0) {
            gsp_buf_puts(&line, ui->query.filter[0] ? "  nothing matches the filter"
                                                    : "  no samples (idle threads are hidden; -i "
                                                      "shows them)");
        }
        put_line((unsigned)(GSP_UI_LINE_ROWS + i), &line, ui->width, attr);
    }
}

static void draw_footer(const struct gsp_screen_view *view)
{
    const struct gsp_ui *ui = view->ui;
    gsp_auto_buf line = {0};
    const struct gsp_ui_help *help;
    for (size_t i = 0; (help = gsp_tui__ui_help_at(ui, i)); i++) {
        if (help->footer)
            gsp_buf_printf(&line, "%.*s:%s ", (int)strcspn(help->keys, ", "), help->keys,
                           help->footer);
    }
    put_line(ui->height - 1, &line, ui->width, A_REVERSE);
}

static void draw_help(const struct gsp_ui *ui)
{
    gsp_auto_buf line = {0};
    const struct gsp_ui_help *help;
    unsigned y = 0;
    gsp_buf_puts(&line, "Keys (any key closes this help)");
    put_line(y++, &line, ui->width, A_BOLD);
    for (size_t i = 0; y < ui->height && (help = gsp_tui__ui_help_at(ui, i)); i++) {
        gsp_buf_printf(&line, "  %-18s %s", help->keys, help->text);
        put_line(y++, &line, ui->width, A_NORMAL);
    }
    static const char *const NOTES[] = {
        "", "own: the function itself; total: including the functions it calls.",
        "Percentages cover the last interval; 100 % is one thread that always runs.",
        "Times are totals since the start or the last reset."};
    for (size_t i = 0; i < GSP_COUNT(NOTES) && y < ui->height; i++) {
        gsp_buf_puts(&line, NOTES[i]);
        put_line(y++, &line, ui->width, A_NORMAL);
    }
}

static void draw_choices(const struct gsp_ui *ui)
{
    gsp_auto_buf line = {0};
    gsp_buf_printf(&line, "Show one %s (Enter: select, Esc: cancel)",
                   ui->mode == GSP_UI_THREADS ? "thread" : "process");
    put_line(0, &line, ui->width, A_BOLD);
    size_t room = ui->height - 1;
    size_t first = ui->choice >= room ? ui->choice - room + 1 : 0;
    for (size_t i = 0; i < room && first + i < ui->choice_count; i++) {
        size_t k = first + i;
        gsp_buf_printf(&line, "%s%s", k == ui->choice ? "> " : "  ", ui->choices[k].label);
        put_line((unsigned)i + 1, &line, ui->width, k == ui->choice ? A_REVERSE : A_NORMAL);
    }
}

static void draw_too_small(const struct gsp_ui *ui)
{
    gsp_auto_buf line = {0};
    gsp_buf_printf(&line, "%ux%u is too small (minimum: 80x10)", ui->width, ui->height);
    put_line(0, &line, ui->width, A_NORMAL);
    gsp_buf_puts(&line, "q: quit");
    if (ui->height > 1)
        put_line(1, &line, ui->width, A_NORMAL);
}

void gsp_tui_screen_draw(const struct gsp_screen_view *view)
{
    const struct gsp_ui *ui = view->ui;
    if (ui->width == 0 || ui->height == 0)
        return;
    werase(stdscr);
    if (ui->width < GSP_TOP_WIDTH_MIN || ui->height < GSP_TOP_HEIGHT_MIN) {
        draw_too_small(ui);
    } else if (ui->mode == GSP_UI_HELP) {
        draw_help(ui);
    } else if (ui->mode == GSP_UI_THREADS || ui->mode == GSP_UI_PROCESSES) {
        draw_choices(ui);
    } else {
        draw_head(view);
        draw_table(view);
        draw_footer(view);
    }
    wrefresh(stdscr);
}

void gsp_tui_screen_draw_lines(const struct gsp_screen_lines *view)
{
    unsigned width = 0;
    unsigned height = 0;
    gsp_tui_screen_size(&width, &height);
    if (width == 0 || height == 0 || view->count == 0)
        return;
    werase(stdscr);
    for (size_t i = 0; i + 1 < view->count && i + 1 < height; i++) {
        attr_t attr = i == 0 ? A_BOLD : A_NORMAL;
        if (i == view->titles)
            attr = A_REVERSE;
        put_line((unsigned)i, &view->at[i], width, attr);
    }
    put_line(height - 1, &view->at[view->count - 1], width, A_REVERSE);
    wrefresh(stdscr);
}
