/* SPDX-License-Identifier: Apache-2.0 */
#include <yyjson.h>

#include "base/width.h"
#include "profile_fixture.h"
#include "report/function_table.h"
#include "report/grid.h"
#include "report/profile.h"

/* Checks that no line exceeds the width. */
static void check_width(struct gsp_buf *text, unsigned width)
{
    struct gsp_sv rest = gsp_buf_sv(text);
    struct gsp_sv line;
    while (gsp_sv_split(&rest, '\n', &line))
        if (!tap_check(gsp_width(line) <= width))
            printf("# %u columns: %.*s\n", gsp_width(line), (int)line.len, line.p);
}

/* fix_small() and frames with long names and paths. */
static struct gsp_profile *wide(void)
{
    struct gsp_profile *p = fix_small();
    uint32_t stack = GSP_NONE;
    for (unsigned i = 0; i < 60; i++) {
        char name[64];
        snprintf(name, sizeof(name), "a_rather_long_name_of_a_function_number_%u", i);
        stack = fix_stack(p, stack,
                          fix_frame(p, name, "/v/site-packages/package/module/file.py", i + 1));
    }
    fix_add(p, 0, stack, 90000, 0);
    uint32_t cjk =
        fix_frame(p, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\x1b[31m", "/\xe6\x97\xa5.py", 7);
    fix_add(p, 0, fix_stack(p, GSP_NONE, cjk), 90001, 0);
    return p;
}

TAP_TEST(golden_table)
{
    struct gsp_profile *p = wide();
    struct gsp_profile_report_opts opts = {.limit = 8};
    struct gsp_view_options view = {.by_function = true};
    struct gsp_buf out = {0};
    tap_require(gsp_report_profile_summary(p, &opts, &out, NULL) == GSP_OK);
    tap_require(gsp_report_profile_top(p, &view, &opts, &out, NULL) == GSP_OK);
    opts.sort = GSP_REPORT_SORT_TOTAL;
    opts.width = 120;
    tap_require(gsp_report_profile_top(p, &view, &opts, &out, NULL) == GSP_OK);
    fix_check_golden(&out, "report/top.txt");
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

TAP_TEST(golden_tree)
{
    struct gsp_profile *p = wide();
    struct gsp_profile_report_opts opts = {.min_pct = 5};
    struct gsp_buf out = {0};
    tap_require(gsp_report_profile_tree(p, &(struct gsp_view_options){.threads = true}, &opts, &out,
                                        NULL) == 0);
    fix_check_golden(&out, "report/tree.txt");
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

TAP_TEST(small_branches_are_summed_up)
{
    struct gsp_profile *p = wide();
    struct gsp_profile_report_opts opts = {.min_pct = 15};
    struct gsp_buf out = {0};
    tap_require(gsp_report_profile_tree(p, &(struct gsp_view_options){0}, &opts, &out, NULL) ==
                GSP_OK);
    const char *text = gsp_buf_cstr(&out);
    tap_check(strstr(text, "(2 smaller)") != NULL);
    tap_check(strstr(text, "a_rather_long_name") == NULL);
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

TAP_TEST(lines_fit_the_width)
{
    struct gsp_profile *p = wide();
    static const unsigned WIDTHS[] = {0, 60, 72, 80, 100, 200};
    for (size_t i = 0; i < GSP_COUNT(WIDTHS); i++) {
        struct gsp_profile_report_opts opts = {.width = WIDTHS[i]};
        struct gsp_view_options view = {.full_filenames = true, .threads = true};
        struct gsp_buf out = {0};
        tap_require(gsp_report_profile_summary(p, &opts, &out, NULL) == GSP_OK);
        tap_require(gsp_report_profile_top(p, &view, &opts, &out, NULL) == GSP_OK);
        tap_require(gsp_report_profile_tree(p, &view, &opts, &out, NULL) == GSP_OK);
        check_width(&out, WIDTHS[i] ? WIDTHS[i] : 80);
        tap_check(memchr(out.p, '\x1b', out.len) == NULL);
        gsp_buf_free(&out);
    }
    gsp_model_profile_free(p);
}

TAP_TEST(a_grid_aligns_cuts_and_escapes)
{
    struct gsp_report_grid grid = {
        .column_count = 2,
        .columns = {{"size", GSP_REPORT_GRID_NUMBER, 6}, {"name", GSP_REPORT_GRID_TEXT, 0}}};
    static const char *const CELLS[][3] = {{"1", "a\x1b|b", ""},
                                           {"12345678", "a long name", "from here"}};
    struct gsp_buf text = {0};
    struct gsp_buf markdown = {0};
    for (size_t i = 0; i < GSP_COUNT(CELLS); i++) {
        for (size_t k = 0; k < 2; k++) {
            gsp_buf_puts(&grid.cell, CELLS[i][k]);
            gsp_report_grid_cell(&grid);
        }
        gsp_buf_puts(&grid.cell, CELLS[i][2]);
        gsp_report_grid_row(&grid);
    }
    gsp_report_grid_text(&grid, 18, &text);
    tap_eq_str(gsp_buf_cstr(&text), "    size  name\n"
                                    "       1  a\\x1b|b\n"
                                    "12345678  a long \xe2\x80\xa6\n"
                                    "          from he\xe2\x80\xa6\n");
    gsp_report_grid_markdown(&grid, &markdown);
    tap_eq_str(gsp_buf_cstr(&markdown), "| size | name |\n|---:|:---|\n"
                                        "| 1 | a\\\\x1b\\|b |\n| 12345678 | a long name |\n");
    gsp_buf_free(&text);
    gsp_buf_free(&markdown);
    gsp_report_grid_free(&grid);
}

TAP_TEST(text_is_cut_by_columns)
{
    static const struct {
        const char *text;
        unsigned width;
        bool from_left;
        const char *expected;
    } CASES[] = {
        {"abcdef", 6, false, "abcdef"},
        {"abcdef", 5, false, "abcd\xe2\x80\xa6"},
        {"abcdef", 5, true,
         "\xe2\x80\xa6"
         "cdef"},
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 6, false, "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"},
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 5, false, "\xe6\x97\xa5\xe6\x9c\xac\xe2\x80\xa6"},
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 4, true, "\xe2\x80\xa6\xe8\xaa\x9e"},
        {"abc", 1, false, "\xe2\x80\xa6"},
        {"abc", 0, false, ""},
    };
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        gsp_auto_buf out = {0};
        unsigned used = gsp_report__text_cut(gsp_sv_of(CASES[i].text), CASES[i].width,
                                             CASES[i].from_left, &out);
        tap_eq_str(gsp_buf_cstr(&out), CASES[i].expected);
        tap_eq_int(used, gsp_width(gsp_buf_sv(&out)));
    }
}

static const struct gsp_function_row *row_of(const struct gsp_function_table *table,
                                             const char *label)
{
    for (size_t i = 0; i < table->count; i++)
        if (gsp_sv_eq(gsp_model_tree_label(table->tree, table->rows[i].label), gsp_sv_of(label)))
            return &table->rows[i];
    printf("# no row %s\n", label);
    exit(TAP_EXIT_FAILED);
}

/* Recursion counts once and processes are merged: load is in three stacks, twice in one of them. */
TAP_TEST(totals_count_a_function_once_per_stack)
{
    struct gsp_profile *p = fix_small();
    struct gsp_function_table table;
    struct gsp_view_options view = {.no_lines = true};
    tap_require(gsp_report__function_table_new(p, &view, GSP_REPORT_SORT_OWN, &table, NULL) ==
                GSP_OK);
    const struct gsp_function_row *load = row_of(&table, "load (features.py)");
    tap_eq_int(load->own_count, 3);
    tap_eq_int(load->total_count, 3);
    tap_eq_int(load->total_weight, 30000000);
    const struct gsp_function_row *module = row_of(&table, "<module> (app.py)");
    tap_eq_int(module->own_count, 1);
    tap_eq_int(module->total_count, 7);
    tap_eq_int(table.count, 6);
    for (size_t i = 1; i < table.count; i++)
        tap_check(table.rows[i - 1].own_weight >= table.rows[i].own_weight);
    gsp_report__function_table_free(&table);
    tap_require(gsp_report__function_table_new(p, &view, GSP_REPORT_SORT_TOTAL, &table, NULL) ==
                GSP_OK);
    for (size_t i = 1; i < table.count; i++)
        tap_check(table.rows[i - 1].total_weight >= table.rows[i].total_weight);
    gsp_report__function_table_free(&table);
    gsp_model_profile_free(p);
}

TAP_TEST(json_matches_the_text)
{
    struct gsp_profile *p = wide();
    struct gsp_profile_report_opts opts = {.limit = 5};
    struct gsp_buf out = {0};
    tap_require(gsp_report_profile_json(p, &(struct gsp_view_options){0}, &opts, &out, NULL) ==
                GSP_OK);
    yyjson_doc *doc = yyjson_read(out.p, out.len, 0);
    tap_require(doc != NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *summary = yyjson_obj_get(root, "summary");
    tap_eq_int(yyjson_get_uint(yyjson_obj_get(summary, "samples")), 12);
    tap_eq_int(yyjson_get_uint(yyjson_ptr_get(summary, "/losses/skipped")), 5);
    yyjson_val *top = yyjson_obj_get(root, "top");
    tap_eq_int(yyjson_arr_size(top), 5);
    tap_eq_int(yyjson_get_uint(yyjson_ptr_get(top, "/0/own_ns")), 20000000);
    yyjson_val *tree = yyjson_obj_get(root, "tree");
    tap_check(yyjson_is_null(yyjson_ptr_get(tree, "/0/parent")));
    tap_eq_int(yyjson_get_uint(yyjson_ptr_get(tree, "/0/total_ns")), 120000000);
    bool *seen = calloc(1000, sizeof(*seen));
    tap_require(seen != NULL);
    size_t i = 0;
    size_t max = 0;
    yyjson_val *node = NULL;
    yyjson_arr_foreach(tree, i, max, node)
    {
        uint64_t parent = yyjson_get_uint(yyjson_obj_get(node, "parent"));
        tap_check(i == 0 || (parent < 1000 && seen[parent])); /* parents come first */
        seen[yyjson_get_uint(yyjson_obj_get(node, "id")) % 1000] = true;
    }
    tap_check(max > 70);
    free(seen);
    yyjson_doc_free(doc);
    gsp_buf_clear(&out);
    opts.parts = GSP_REPORT_PART_TOP;
    tap_require(gsp_report_profile_json(p, &(struct gsp_view_options){0}, &opts, &out, NULL) ==
                GSP_OK);
    tap_check(strstr(gsp_buf_cstr(&out), "\"tree\"") == NULL);
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

TAP_TEST(csv_and_markdown_are_escaped)
{
    struct gsp_profile *p = fix_small();
    fix_add(p, 0, fix_stack(p, GSP_NONE, fix_frame(p, "=cmd|' /C calc'!A0", "/x,y\".py", 1)), 95000,
            0);
    fix_add(p, 0, fix_stack(p, GSP_NONE, fix_frame(p, "<b>|[x](y)`__init__", "z.py", 2)), 95001, 0);
    struct gsp_profile_report_opts opts = {0};
    struct gsp_buf out = {0};
    tap_require(gsp_report_profile_csv(p, &(struct gsp_view_options){0}, &opts, &out, NULL) ==
                GSP_OK);
    const char *csv = gsp_buf_cstr(&out);
    tap_check(strstr(csv, "\n\"'=cmd|' /C calc'!A0\",\"/x,y\"\".py\",1,1,1,10000000,10000000,"));
    tap_check(strncmp(csv, "function,file,line,own_samples,total_samples,own_ns,total_ns,", 61) ==
              0);
    gsp_buf_clear(&out);
    tap_require(gsp_report_profile_markdown(p, &(struct gsp_view_options){0}, &opts, &out, NULL) ==
                GSP_OK);
    const char *markdown = gsp_buf_cstr(&out);
    tap_check(strstr(markdown, "| &#60;b&#62;\\|\\[x\\]\\(y\\)\\`\\_\\_init\\_\\_ | z.py:2 |"));
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

/* %%gsprof lists all threads of the kernel, but samples only those of the cell. */
TAP_TEST(threads_without_samples_are_counted_separately)
{
    struct gsp_profile *p = fix_small();
    struct gsp_profile_report_opts opts = {0};
    struct gsp_buf out = {0};
    tap_require(gsp_report_profile_summary(p, &opts, &out, NULL) == GSP_OK);
    tap_check(strstr(gsp_buf_cstr(&out), " 3 threads in 2 processes\n") != NULL);
    fix_thread(p, 0, 106, "idle");
    gsp_buf_clear(&out);
    tap_require(gsp_report_profile_summary(p, &opts, &out, NULL) == GSP_OK);
    tap_check(strstr(gsp_buf_cstr(&out), " 4 threads in 2 processes, samples of 3\n") != NULL);
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

TAP_TEST(an_empty_profile_has_reports)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    struct gsp_profile_report_opts opts = {0};
    struct gsp_view_options view = {0};
    struct gsp_buf out = {0};
    tap_eq_int(gsp_report_profile_summary(p, &opts, &out, NULL), GSP_OK);
    tap_eq_int(gsp_report_profile_top(p, &view, &opts, &out, NULL), GSP_OK);
    tap_eq_int(gsp_report_profile_tree(p, &view, &opts, &out, NULL), GSP_OK);
    tap_eq_int(gsp_report_profile_csv(p, &view, &opts, &out, NULL), GSP_OK);
    tap_eq_int(gsp_report_profile_markdown(p, &view, &opts, &out, NULL), GSP_OK);
    tap_check(strstr(gsp_buf_cstr(&out), "nan") == NULL);
    gsp_buf_clear(&out);
    tap_eq_int(gsp_report_profile_json(p, &view, &opts, &out, NULL), GSP_OK);
    yyjson_doc *doc = yyjson_read(out.p, out.len, 0);
    tap_check(doc != NULL);
    yyjson_doc_free(doc);
    gsp_buf_free(&out);
    gsp_model_profile_free(p);
}

TAP_MAIN()
