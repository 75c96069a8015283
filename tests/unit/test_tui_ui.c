/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "top_fixture.h"
#include "tui/ui.h"

/* A view of fix_small() and the keys pressed in it. */
struct bench {
    struct gsp_profile *profile;
    struct gsp_top *top;
    struct gsp_ui ui;
    struct gsp_top_rows rows;
};

static void make_rows(struct bench *b)
{
    tap_require(gsp_tui_rows_build(b->top, &b->ui.query, &b->rows, NULL) == GSP_OK);
    gsp_tui_ui_clamp_cursor(&b->ui, b->rows.count);
}

static struct bench begin(bool is_replay)
{
    struct bench b = {.profile = fix_small()};
    b.top = fix_top(b.profile);
    gsp_tui_ui_init(&b.ui, is_replay);
    make_rows(&b);
    return b;
}

static void end(struct bench *b)
{
    gsp_tui_rows_free(&b->rows);
    gsp_tui_ui_free(&b->ui);
    gsp_tui_top_free(b->top);
    gsp_model_profile_free(b->profile);
}

static void press(struct bench *b, int code)
{
    gsp_tui_ui_press(&b->ui, &(struct gsp_ui_key){.code = code}, b->top, &b->rows);
    make_rows(b);
}

static void click(struct bench *b, unsigned x, unsigned y)
{
    gsp_tui_ui_press(&b->ui, &(struct gsp_ui_key){.code = GSP_KEY_CLICK, .x = x, .y = y}, b->top,
                     &b->rows);
    make_rows(b);
}

TAP_TEST(keys_sort)
{
    struct bench b = begin(false);
    press(&b, '2');
    tap_eq_int(b.ui.query.sort, GSP_TOP_TOTAL_PCT);
    press(&b, '>');
    tap_eq_int(b.ui.query.sort, GSP_TOP_OWN);
    press(&b, '1');
    press(&b, '<');
    tap_eq_int(b.ui.query.sort, GSP_TOP_FILE);
    press(&b, '>');
    tap_eq_int(b.ui.query.sort, GSP_TOP_OWN_PCT);
    click(&b, 30, GSP_UI_LINE_COLUMNS);
    tap_eq_int(b.ui.query.sort, GSP_TOP_TOTAL);
    end(&b);
}

TAP_TEST(the_cursor_stays_in_the_table)
{
    struct bench b = begin(false);
    size_t count = b.rows.count;
    tap_require(count > gsp_tui__ui_page(&b.ui));
    press(&b, GSP_KEY_UP);
    tap_eq_int(b.ui.cursor, 0);
    press(&b, GSP_KEY_END);
    tap_eq_int(b.ui.cursor, count - 1);
    tap_eq_int(b.ui.first, count - gsp_tui__ui_page(&b.ui));
    press(&b, GSP_KEY_DOWN);
    tap_eq_int(b.ui.cursor, count - 1);
    press(&b, GSP_KEY_PAGE_UP);
    tap_eq_int(b.ui.cursor, count - 1 - gsp_tui__ui_page(&b.ui));
    press(&b, GSP_KEY_HOME);
    tap_eq_int(b.ui.first, 0);
    press(&b, GSP_KEY_WHEEL_DOWN);
    tap_eq_int(b.ui.cursor, 3);
    b.ui.height = 100;
    gsp_tui_ui_clamp_cursor(&b.ui, 2);
    tap_eq_int(b.ui.cursor, 1);
    gsp_tui_ui_clamp_cursor(&b.ui, 0);
    tap_eq_int(b.ui.cursor, 0);
    end(&b);
}

TAP_TEST(filter_is_typed)
{
    struct bench b = begin(false);
    press(&b, '/');
    press(&b, 'q'); /* now a letter */
    tap_check(!b.ui.wants_quit);
    press(&b, GSP_KEY_ERASE);
    press(&b, 's');
    press(&b, 0xe9);
    tap_eq_str(b.ui.query.filter, "s\xc3\xa9");
    press(&b, GSP_KEY_ERASE);
    tap_eq_str(b.ui.query.filter, "s");
    press(&b, 'g');
    tap_eq_int(b.rows.count, 1);
    press(&b, GSP_KEY_ENTER);
    tap_eq_int(b.ui.mode, GSP_UI_TABLE);
    press(&b, '/');
    press(&b, 'x');
    press(&b, GSP_KEY_ESCAPE);
    tap_eq_str(b.ui.query.filter, "sg");
    press(&b, GSP_KEY_ESCAPE);
    tap_eq_str(b.ui.query.filter, "");
    /* The filter has a maximum length. */
    press(&b, '/');
    for (int i = 0; i < 200; i++)
        press(&b, i % 2 ? 0x1f600 : 'a');
    tap_check(strlen(b.ui.query.filter) < GSP_TOP_FILTER_MAX);
    end(&b);
}

TAP_TEST(one_thread_is_selected)
{
    struct bench b = begin(false);
    press(&b, 't');
    tap_eq_int(b.ui.mode, GSP_UI_THREADS);
    tap_eq_int(b.ui.choice_count, 4);
    tap_eq_str(b.ui.choices[0].label, "all");
    tap_eq_str(b.ui.choices[1].label, "MainThread (100) of process 100");
    tap_eq_str(b.ui.choices[3].label, "loader \"1\";<x> (105) of process 100");
    press(&b, GSP_KEY_END);
    press(&b, GSP_KEY_ENTER);
    tap_eq_int(b.ui.query.thread, 1);
    tap_eq_int(b.rows.count, 2);
    press(&b, 'p');
    press(&b, GSP_KEY_DOWN);
    press(&b, GSP_KEY_DOWN);
    press(&b, GSP_KEY_ENTER);
    tap_eq_int(b.ui.query.process, 1);
    tap_eq_int(b.ui.query.thread, GSP_NO_INDEX);
    press(&b, 't'); /* only threads of the process */
    tap_eq_int(b.ui.choice_count, 2);
    press(&b, GSP_KEY_ESCAPE);
    tap_eq_int(b.ui.mode, GSP_UI_TABLE);
    end(&b);
}

TAP_TEST(the_tree_folds)
{
    struct bench b = begin(false);
    press(&b, 'v');
    tap_eq_int(b.ui.query.sort, GSP_TOP_TOTAL_PCT);
    size_t all = b.rows.count;
    press(&b, GSP_KEY_DOWN);
    press(&b, GSP_KEY_ENTER);
    tap_check(b.rows.count < all);
    press(&b, GSP_KEY_RIGHT);
    tap_eq_int(b.rows.count, all);
    click(&b, 50, GSP_UI_LINE_ROWS + 1);
    tap_check(b.rows.count < all);
    press(&b, GSP_KEY_LEFT); /* already folded: moves to the parent */
    tap_eq_int(b.ui.cursor, 0);
    press(&b, '-');
    tap_eq_int(b.rows.count, 1);
    press(&b, '+');
    tap_eq_int(b.rows.count, all);
    press(&b, 'v');
    tap_check(!b.ui.query.tree);
    end(&b);
}

TAP_TEST(keys_that_the_owner_handles)
{
    struct bench b = begin(false);
    press(&b, ' ');
    tap_check(b.ui.is_paused);
    press(&b, ' ');
    tap_check(!b.ui.is_paused);
    press(&b, 'r');
    tap_check(b.ui.wants_reset);
    press(&b, 'l');
    tap_check(b.ui.query.view.by_function);
    press(&b, '?');
    tap_eq_int(b.ui.mode, GSP_UI_HELP);
    press(&b, 'q'); /* closes only the help */
    tap_check(!b.ui.wants_quit);
    press(&b, 'q');
    tap_check(b.ui.wants_quit);
    end(&b);
    b = begin(true);
    press(&b, GSP_KEY_RIGHT);
    press(&b, GSP_KEY_RIGHT);
    press(&b, GSP_KEY_LEFT);
    tap_eq_int(b.ui.seek_ns, 5 * GSP_NS_PER_S);
    press(&b, GSP_KEY_HOME);
    tap_check(b.ui.wants_start);
    press(&b, GSP_KEY_END);
    tap_check(b.ui.wants_end);
    end(&b);
}

TAP_TEST(the_footer_fits)
{
    for (int replay = 0; replay < 2; replay++) {
        struct gsp_ui ui;
        const struct gsp_ui_help *help;
        size_t width = 0;
        gsp_tui_ui_init(&ui, replay);
        for (size_t i = 0; (help = gsp_tui__ui_help_at(&ui, i)); i++) {
            if (help->footer)
                width += strcspn(help->keys, ", ") + strlen(help->footer) + 2;
            tap_check(strlen(help->text) <= 59);
        }
        tap_check(width <= GSP_TOP_WIDTH_MIN + 1); /* without the trailing blank */
        gsp_tui_ui_free(&ui);
    }
}

TAP_MAIN()
