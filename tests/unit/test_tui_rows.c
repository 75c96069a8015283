/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "base/width.h"
#include "top_fixture.h"
#include "tui/lines.h"
#include "tui/text.h"

static void check_rows(const struct gsp_top *top, const struct gsp_top_query *query,
                       const char *expected)
{
    struct gsp_top_rows rows = {0};
    gsp_auto_buf text = {0};
    tap_require(gsp_tui_rows_build(top, query, &rows, NULL) == GSP_OK);
    fix_rows_text(gsp_tui__top_profile(top), &rows, &text);
    tap_eq_str(gsp_buf_cstr(&text), expected);
    gsp_tui_rows_free(&rows);
}

TAP_TEST(a_function_is_one_row)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_top_query query;
    gsp_tui__top_query_init(&query);
    query.view.by_function = true;
    /* load calls itself: its total counts each sample once. */
    check_rows(top, &query,
               "0 main 2/6\n"
               "0 load 2/3\n"
               "0 sgemm 2/2\n"
               "0 <module> 1/7\n"
               "0 a;b\\x0a<&\"\xc3\xa9%3B 1/1\n"
               "0 load 1/1\n"
               "0 Thread._bootstrap 0/2\n");
    query.sort = GSP_TOP_TOTAL;
    check_rows(top, &query,
               "0 <module> 1/7\n"
               "0 main 2/6\n"
               "0 load 2/3\n"
               "0 sgemm 2/2\n"
               "0 Thread._bootstrap 0/2\n"
               "0 a;b\\x0a<&\"\xc3\xa9%3B 1/1\n"
               "0 load 1/1\n");
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(filters_narrow)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_top_query query;
    gsp_tui__top_query_init(&query);
    query.thread = 1;
    check_rows(top, &query, "0 sgemm 2/2\n0 Thread._bootstrap 0/2\n");
    query.thread = GSP_NO_INDEX;
    query.process = 1;
    check_rows(top, &query, "0 <module> 1/2\n0 main 1/1\n");
    query.process = GSP_NO_INDEX;
    strcpy(query.filter, "FEATURES");
    query.view.no_lines = true;
    check_rows(top, &query, "0 load 3/3\n");
    strcpy(query.filter, "no such thing");
    check_rows(top, &query, "");
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(processes_nest_in_the_tree)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_top_query query;
    gsp_tui__top_query_init(&query);
    query.tree = true;
    query.sort = GSP_TOP_TOTAL_PCT;
    query.view.no_lines = true;
    check_rows(top, &query,
               "0 process 100: python3 app.py --fast 1/10\n"
               "1 <module> 0/5\n"
               "2 main 1/5\n"
               "3 load 2/3\n"
               "4 load 1/1\n"
               "3 a;b\\x0a<&\"\xc3\xa9%3B 1/1\n"
               "1 process 101: python3 app.py --fast 0/2\n"
               "2 <module> 1/2\n"
               "3 main 1/1\n"
               "1 Thread._bootstrap 0/2\n"
               "2 sgemm 2/2\n");
    strcpy(query.filter, "sgemm");
    check_rows(top, &query,
               "0 process 100: python3 app.py --fast 1/10\n"
               "1 Thread._bootstrap 0/2\n"
               "2 sgemm 2/2\n");
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(branches_fold)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_top_query query;
    struct gsp_top_rows rows = {0};
    gsp_tui__top_query_init(&query);
    query.tree = true;
    query.sort = GSP_TOP_TOTAL_PCT;
    tap_require(gsp_tui_rows_build(top, &query, &rows, NULL) == GSP_OK);
    tap_check(rows.rows[1].has_children && rows.rows[1].is_open);
    tap_eq_int(rows.rows[0].parent, GSP_NO_INDEX);
    tap_eq_int(rows.rows[2].parent, 1);
    uint64_t path = rows.rows[1].path;
    gsp_tui__top_query_toggle(&query, path);
    tap_require(gsp_tui_rows_build(top, &query, &rows, NULL) == GSP_OK);
    tap_check(rows.rows[1].has_children && !rows.rows[1].is_open);
    tap_eq_int(rows.rows[2].depth, 1); /* the next branch follows directly */
    gsp_tui__top_query_toggle(&query, path);
    query.folded = true;
    check_rows(top, &query, "0 process 100: python3 app.py --fast 1/10\n");
    gsp_tui_rows_free(&rows);
    gsp_tui__top_query_free(&query);
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(threads_are_separate_rows)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_top_query query;
    gsp_tui__top_query_init(&query);
    query.tree = true;
    query.sort = GSP_TOP_TOTAL_PCT;
    query.view.threads = true;
    query.process = 1;
    check_rows(top, &query,
               "0 process 100: python3 app.py --fast 0/2\n"
               "1 process 101: python3 app.py --fast 0/2\n"
               "2 thread MainThread (101) 0/2\n"
               "3 <module> 1/2\n"
               "4 main 1/1\n");
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(a_share_is_of_time)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    /* Ten samples of 10 ms in 100 ms: six with the GIL, eight on a CPU. */
    struct gsp_top_facts facts = {0};
    gsp_tui_top_facts_sum(top, false, &facts);
    tap_eq_int(facts.gil_pct + 0.5, 50);
    tap_eq_int(facts.active_pct + 0.5, 80);
    tap_eq_int(facts.samples, 10);
    gsp_tui_top_facts_count(top, &facts);
    tap_eq_int(facts.threads, 3);
    tap_eq_int(facts.processes, 2);
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(an_expired_interval_stays_in_the_sums)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_sample sample = {.weight = 5, .thread = 0, .stack = 1};
    gsp_tui_top_end_interval(top);
    tap_eq_int(gsp_tui_top_recent(top)->samples, 10);
    tap_require(gsp_tui_top_add(top, &sample, NULL) == GSP_OK);
    gsp_tui_top_advance(top, 200 * GSP_NS_PER_MS);
    tap_eq_int(gsp_tui_top_recent(top)->samples, 10); /* until the interval ends */
    gsp_tui_top_end_interval(top);
    tap_eq_int(gsp_tui_top_recent(top)->samples, 1);
    tap_eq_int(gsp_tui_top_recent(top)->length_ns, 100 * GSP_NS_PER_MS);
    tap_eq_int(gsp_tui__top_all(top)->samples, 11);
    gsp_tui_top_reset(top);
    tap_eq_int(gsp_tui__top_all(top)->samples, 0);
    tap_eq_int(gsp_tui__top_sum_count(top), 0);
    tap_eq_int(gsp_tui__top_thread_weight(top, 0), -1);
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(a_pause_adds_nothing)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_sample sample = {.weight = 5, .thread = 0, .stack = 1};
    gsp_tui_top_pause(top, true);
    tap_require(gsp_tui_top_add(top, &sample, NULL) == GSP_OK);
    gsp_tui_top_advance(top, 500 * GSP_NS_PER_MS);
    gsp_tui_top_end_interval(top);
    tap_eq_int(gsp_tui__top_all(top)->samples, 10);
    tap_eq_int(gsp_tui__top_all(top)->length_ns, 100 * GSP_NS_PER_MS);
    gsp_tui_top_pause(top, false);
    gsp_tui_top_advance(top, 600 * GSP_NS_PER_MS);
    tap_eq_int(gsp_tui__top_all(top)->length_ns, 200 * GSP_NS_PER_MS);
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(sums_without_intervals)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = NULL;
    tap_require(gsp_tui_top_new(p, &top, NULL) == GSP_OK);
    tap_require(gsp_tui_top_add_totals(top, NULL) == GSP_OK);
    tap_eq_int(gsp_tui__top_all(top)->samples, 10);
    /* Without a duration, shares are relative to the total weight. */
    tap_eq_int(gsp_tui__top_percent(top, gsp_tui__top_all(top), 20 * GSP_NS_PER_MS) + 0.5, 20);
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_TEST(text_fits_its_cells)
{
    static const struct {
        const char *text;
        size_t width;
        bool right;
        const char *expected;
    } rows[] = {
        {"abc", 5, false, "abc  "},
        {"abc", 5, true, "  abc"},
        {"abcdef", 4, false, "abc~"},
        {"abcdef", 0, false, ""},
        {"\xc3\xa9\xc3\xa9", 3, false, "\xc3\xa9\xc3\xa9 "},
        {"abc", 3, false, "abc"},
        {"ab", 1, false, "~"},
    };
    for (size_t i = 0; i < GSP_COUNT(rows); i++) {
        gsp_auto_buf out = {0};
        gsp_tui__text_fit(&out, gsp_sv_of(rows[i].text), rows[i].width, rows[i].right);
        tap_eq_str(gsp_buf_cstr(&out), rows[i].expected);
    }
    gsp_auto_buf out = {0};
    gsp_tui__text_fit_end(&out, gsp_sv_of("threading.py:1016"), 8);
    tap_eq_str(gsp_buf_cstr(&out), "~py:1016");
}

TAP_TEST(columns_fill_the_width)
{
    for (unsigned width = 80; width < 300; width += 7) {
        struct gsp_top_layout layout;
        gsp_auto_buf line = {0};
        gsp_tui__layout_init(width, &layout);
        gsp_tui__line_columns(&layout, GSP_TOP_TOTAL, &line);
        tap_eq_int(line.len, width);
        tap_check(strstr(gsp_buf_cstr(&line), " total time* "));
        tap_eq_int(gsp_tui__top_layout_at(&layout, 0), GSP_TOP_OWN_PCT);
        tap_eq_int(gsp_tui__top_layout_at(&layout, width - 1), GSP_TOP_FILE);
        tap_eq_int(gsp_tui__top_layout_at(&layout, width), GSP_TOP_COLUMNS);
    }
}

TAP_TEST(no_line_exceeds_the_width)
{
    struct gsp_profile *p = fix_small();
    struct gsp_top *top = fix_top(p);
    struct gsp_top_query query;
    gsp_tui__top_query_init(&query);
    for (int tree = 0; tree < 2; tree++) {
        gsp_auto_buf text = {0};
        struct gsp_top_facts facts = {.title = "python3 \033[31mapp.py", .pid = 100};
        query.tree = tree;
        tap_require(gsp_tui_top_text(top, &query, &facts, 80, 0, &text) == GSP_OK);
        struct gsp_sv rest = gsp_buf_sv(&text);
        struct gsp_sv line;
        while (gsp_sv_split(&rest, '\n', &line)) {
            tap_check(gsp_width(line) <= 80);
            tap_check(!memchr(line.p, '\033', line.len));
        }
    }
    gsp_tui_top_free(top);
    gsp_model_profile_free(p);
}

TAP_MAIN()
