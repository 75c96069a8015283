/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>

#include "base/width.h"
#include "report/rows_table.h"
#include "rows_fixture.h"

static struct gsp_rows_table_opts opts_of_test;

static int write_table(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err)
{
    struct gsp_rows_table *table = NULL;
    int rc = gsp_report_rows_table_new(rows, &opts_of_test, &table, err);
    if (rc == GSP_OK)
        rc = gsp_report_rows_table_write(table, out, err);
    gsp_report_rows_table_free(table);
    return rc;
}

/* The table as text; the caller frees it. */
static struct gsp_buf table_of(struct fix_rows *fix, unsigned width)
{
    struct gsp_buf text = {0};
    opts_of_test.width = width;
    tap_require(fix_rows_write(write_table, fix, &text, NULL) == GSP_OK);
    return text;
}

static void check_width(struct gsp_buf *text, unsigned width)
{
    struct gsp_sv rest = gsp_buf_sv(text);
    struct gsp_sv line;
    while (gsp_sv_split(&rest, '\n', &line))
        if (!tap_check(gsp_width(line) <= width))
            printf("# %u columns: %.*s\n", gsp_width(line), (int)line.len, line.p);
}

#define RULE_1   "\xe2\x94\x80"
#define RULE_5   RULE_1 RULE_1 RULE_1 RULE_1 RULE_1
#define RULE_7   RULE_5 RULE_1 RULE_1
#define ELLIPSIS "\xe2\x80\xa6"

TAP_TEST(numbers_right_text_left)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"step", "BIGINT", NULL, 0, GSP_CELL_I64},
        {"module", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"s", "DOUBLE", NULL, 0, GSP_CELL_F64},
        {"ok", "BOOLEAN", NULL, 0, GSP_CELL_BOOL},
    };
    static const int64_t STEPS[] = {7, 12345, 1};
    static const struct gsp_sv MODULES[] = {FIX_SV("fc"), FIX_SV(""), FIX_SV("a\nb\t\x07")};
    static const double SECONDS[] = {0.5, 0, 1234.56789};
    static const uint8_t OK[] = {1, 0, 1};
    static const uint64_t VALID[] = {5};
    static const struct gsp_values VALUES[] = {
        {STEPS, NULL}, {MODULES, VALID}, {SECONDS, VALID}, {OK, NULL}};
    struct fix_rows fix = fix_rows_of(COLUMNS, 4, VALUES, 3);
    struct gsp_buf text = table_of(&fix, 80);
    tap_eq_str(gsp_buf_cstr(&text), " step  module            s  ok\n" RULE_5 "  " RULE_5 RULE_5
                                    "  " RULE_7 "  " RULE_5 "\n"
                                    "    7  fc              0.5  true\n"
                                    "12345  NULL           NULL  false\n"
                                    "    1  a\\nb\\t\\x07  1234.57  true\n"
                                    "(3 rows)\n");
    gsp_buf_free(&text);
}

TAP_TEST(numbers_have_six_figures)
{
    static const struct {
        double v;
        const char *text;
    } CASES[] = {
        {0, "0.0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.333333"},
        {100, "100.0"},
        {-2.5, "-2.5"},
        {1234567.89, "1234568"},
        {0.00012345678, "0.000123457"},
        {1e-9, "1e-09"},
        {1e20, "1e+20"},
        {(double)NAN, "nan"},
        {(double)INFINITY, "inf"},
        {999999.95, "1000000"},
    };
    static const struct gsp_rows_column COLUMN = {"x", "DOUBLE", NULL, 0, GSP_CELL_F64};
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        struct gsp_values values = {&CASES[i].v, NULL};
        struct fix_rows fix = fix_rows_of(&COLUMN, 1, &values, 1);
        struct gsp_buf text = table_of(&fix, 0);
        struct gsp_sv rest = gsp_buf_sv(&text);
        struct gsp_sv line = {0};
        for (int k = 0; k < 3; k++)
            gsp_sv_split(&rest, '\n', &line);
        while (line.len && line.p[0] == ' ')
            line = (struct gsp_sv){line.p + 1, line.len - 1};
        if (!tap_check(gsp_sv_eq(line, gsp_sv_of(CASES[i].text))))
            printf("# %.*s, not %s\n", (int)line.len, line.p, CASES[i].text);
        gsp_buf_free(&text);
    }
}

TAP_TEST(tables_fit_every_width)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    for (unsigned width = 40; width < 200; width += 7) {
        struct fix_rows fix = fix_rows_all();
        fix.batch_count = 30; /* too many rows for one value per line */
        struct gsp_buf text = table_of(&fix, width);
        check_width(&text, width);
        tap_check(memchr(text.p, '\x1b', text.len) == NULL);
        /* A number is never cut. */
        const char *whole = gsp_buf_cstr(&text);
        tap_check(strstr(whole, "not shown: sum") ||
                  strstr(whole, "99999999999999999999999999999999999999"));
        gsp_buf_free(&text);
    }
}

TAP_TEST(long_text_is_cut)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"a_long_name_of_a_column", "BIGINT", NULL, 0, GSP_CELL_I64},
        {"text", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    static const int64_t NUMBERS[] = {1};
    static const struct gsp_sv TEXTS[] = {FIX_SV("0123456789abcdefghijklmnopqrstuvwxyz")};
    static const struct gsp_values VALUES[] = {{NUMBERS, NULL}, {TEXTS, NULL}};
    struct fix_rows fix = fix_rows_of(COLUMNS, 2, VALUES, 1);
    struct gsp_buf text = table_of(&fix, 40);
    check_width(&text, 40);
    tap_check(strstr(gsp_buf_cstr(&text), ELLIPSIS "\n") != NULL);
    gsp_buf_free(&text);
    fix.given = 0;
    text = table_of(&fix, 0); /* a pipe: nothing is cut */
    tap_check(strstr(gsp_buf_cstr(&text), "0123456789abcdefghijklmnopqrstuvwxyz\n") != NULL);
    gsp_buf_free(&text);
}

TAP_TEST(first_columns_stay_whole_last_ones_are_dropped)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"metric", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"meaning", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"last", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    static const struct gsp_sv METRICS[] = {FIX_SV("system.memory.used_bytes"), FIX_SV("b")};
    static const struct gsp_sv MEANINGS[] = {FIX_SV("memory that is not available"), FIX_SV("c")};
    static const struct gsp_sv LAST[] = {FIX_SV("at the end"), FIX_SV("d")};
    static const struct gsp_values VALUES[] = {{METRICS, NULL}, {MEANINGS, NULL}, {LAST, NULL}};
    struct fix_rows fix = fix_rows_of(COLUMNS, 3, VALUES, 2);
    opts_of_test.whole = 1;
    opts_of_test.text_min = 12;
    struct gsp_buf text = table_of(&fix, 44);
    check_width(&text, 44);
    tap_check(strstr(gsp_buf_cstr(&text), "system.memory.used_bytes  memory that") != NULL);
    tap_check(strstr(gsp_buf_cstr(&text), "(1 column not shown: last)") != NULL);
    gsp_buf_free(&text);
    fix.given = 0;
    text = table_of(&fix, 20); /* not even one fits: it is cut like the others */
    check_width(&text, 20);
    gsp_buf_free(&text);
    fix = fix_rows_of(COLUMNS, 3, VALUES, 1);
    text = table_of(&fix, 44); /* a single row is written vertically */
    tap_check(strstr(gsp_buf_cstr(&text), "last     at the end\n") != NULL);
    gsp_buf_free(&text);
    opts_of_test.whole = 0;
    opts_of_test.text_min = 0;
}

TAP_TEST(few_rows_of_many_columns_are_vertical)
{
    struct fix_rows fix = fix_rows_all();
    fix.batch.row_count = 3;
    struct gsp_buf text = table_of(&fix, 30);
    tap_eq_str(gsp_buf_cstr(&text),
               "\xe2\x94\x80\xe2\x94\x80 row 1 \xe2\x94\x80\xe2\x94\x80\n"
               "i    1\nsum  42\nf    0.5\nb    true\nt    plain\nj    [1,2]\nd    forward\n"
               "\xe2\x94\x80\xe2\x94\x80 row 2 \xe2\x94\x80\xe2\x94\x80\n"
               "i    NULL\nsum  NULL\nf    NULL\nb    NULL\nt    NULL\nj    NULL\nd    NULL\n"
               "\xe2\x94\x80\xe2\x94\x80 row 3 \xe2\x94\x80\xe2\x94\x80\n"
               "i    -7\nsum  -1\nf    nan\nb    false\nt    a \"b\",\n     c\\x1b[\n"
               "j    {\"a\": null}\nd    back,ward\n"
               "(3 rows)\n");
    gsp_buf_free(&text);
}

TAP_TEST(many_rows_of_many_columns_list_hidden_columns)
{
    struct fix_rows fix = fix_rows_all();
    fix.batch_count = 1000;
    struct gsp_buf text = table_of(&fix, 60);
    const char *whole = gsp_buf_cstr(&text);
    tap_check(strstr(whole, "(4000 rows)\n(5 columns not shown: f, b, t, j, d)\n") != NULL);
    gsp_buf_free(&text);
}

TAP_TEST(cut_results_are_marked)
{
    struct fix_rows fix = fix_rows_all();
    fix.is_cut = true;
    struct gsp_buf text = table_of(&fix, 0);
    tap_check(strstr(gsp_buf_cstr(&text), "(4 rows; the limit cut the result)\n") != NULL);
    gsp_buf_free(&text);
}

TAP_TEST(an_empty_result_has_its_columns)
{
    struct fix_rows fix = fix_rows_all();
    fix.batch_count = 0;
    struct gsp_buf text = table_of(&fix, 80);
    tap_check(strncmp(gsp_buf_cstr(&text), "i  sum  f  b  t  j  d\n", 22) == 0);
    tap_check(strstr(gsp_buf_cstr(&text), "(0 rows)\n") != NULL);
    gsp_buf_free(&text);
}

TAP_TEST(explain_output_is_unchanged)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"explain_key", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"explain_value", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    static const struct gsp_sv KEYS[] = {FIX_SV("physical_plan")};
    static const struct gsp_sv PLANS[] = {FIX_SV("a\n  b\x1b\n")};
    static const struct gsp_values VALUES[] = {{KEYS, NULL}, {PLANS, NULL}};
    struct fix_rows fix = fix_rows_of(COLUMNS, 2, VALUES, 1);
    struct gsp_buf text = table_of(&fix, 80);
    tap_eq_str(gsp_buf_cstr(&text), "a\n  b\\x1b\n");
    gsp_buf_free(&text);
}

TAP_TEST(query_failures_are_returned)
{
    static const int AT[] = {1, 500};
    for (size_t i = 0; i < GSP_COUNT(AT); i++) {
        struct fix_rows fix = fix_rows_all();
        fix.batch_count = 1000;
        fix.fail_at = AT[i];
        gsp_auto_buf text = {0};
        struct gsp_err err = {0};
        tap_eq_int(fix_rows_write(write_table, &fix, &text, &err), GSP_E_TIMEOUT);
        tap_eq_str(err.msg, "the query took too long");
    }
}

/* With a locale, combining marks take no column, and wide characters take two. */
TAP_TEST(widths_are_those_of_a_terminal)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        tap_skip("needs the locale C.UTF-8");
    tap_eq_int(gsp_width(gsp_sv_of("e\xcc\x81")), 1);
    tap_eq_int(gsp_width(gsp_sv_of("\xe6\x97\xa5")), 2);
    tap_eq_int(gsp_width(gsp_sv_of("\xf0\x9f\x98\x80")), 2);
    tap_eq_int(gsp_width(gsp_sv_of("\xf0\x9d\x84\x9e")), 1);
}

TAP_MAIN()
