/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hint.h"
#include "cli/prompt.h"
#include "cli/rows_out.h"
#include "model/row_list.h"
#include "source/endpoint.h"
#include "tap.h"

/* Comment markers, split for tools that do not parse strings. */
#define OPEN                                                                                       \
    "/"                                                                                            \
    "*"
#define CLOSE                                                                                      \
    "*"                                                                                            \
    "/"

TAP_TEST(statements_end_with_a_semicolon)
{
    static const struct {
        const char *sql;
        bool whole;
    } CASES[] = {
        {"", false},
        {"SELECT 1", false},
        {"SELECT 1;", true},
        {"SELECT 1 ; \n", true},
        {"SELECT ';'", false},
        {"SELECT ';';", true},
        {"SELECT 'it''s;'", false},
        {"SELECT \";\"", false},
        {"SELECT 1 -- ;", false},
        {"SELECT 1; -- done", true},
        {"SELECT 1 " OPEN " ; " CLOSE, false},
        {"SELECT 1; " OPEN " open", false},
        {"SELECT $$;$$", false},
        {"SELECT $$;$$;", true},
        {"SELECT 'open;", false},
        {";", true},
        {OPEN, false},
        {"$$", false},
        {"'", false},
    };
    for (size_t i = 0; i < GSP_COUNT(CASES); i++)
        if (!tap_check(gsp_cli__prompt_is_complete(gsp_sv_of(CASES[i].sql)) == CASES[i].whole))
            printf("# %s\n", CASES[i].sql);
}

TAP_TEST(words_are_completed)
{
    static const char WORDS[] = "python.torch_step\0python.torch_trace\0SELECT\0sum(\0seq";
    static const struct {
        const char *start;
        size_t count;
        const char *common;
    } CASES[] = {
        {"python.t", 2, "orch_"},
        {"python.torch_t", 1, "race"},
        {"selec", 1, "T"},
        {"s", 3, ""},
        {"zz", 0, ""},
        {"", 5, ""},
        {"seq", 1, ""},
    };
    struct gsp_words words = {{WORDS, sizeof(WORDS)}};
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        gsp_auto_buf common = {0};
        gsp_auto_buf list = {0};
        tap_eq_int(gsp_cli__prompt_complete(&words, gsp_sv_of(CASES[i].start), &common, &list),
                   CASES[i].count);
        tap_eq_str(gsp_buf_cstr(&common), CASES[i].common);
    }
}

static const char *hint_of(const char *sql, uint32_t line, uint32_t column, struct gsp_hint *hint)
{
    struct gsp_err err = {.code = GSP_E_USAGE, .msg = "no such column"};
    struct gsp_hint_context context = {.root = "",
                                       .endpoint = "4242",
                                       .sql = gsp_sv_of(sql),
                                       .sql_line = line,
                                       .sql_column = column,
                                       .candidate = "step"};
    gsp_cli__hint_make(&err, &context, hint);
    return hint->excerpt;
}

TAP_TEST(error_position_is_marked)
{
    struct gsp_hint hint;
    tap_eq_str(hint_of("SELECT stpe FROM t", 1, 8, &hint),
               "    SELECT stpe FROM t\n           ^\n");
    tap_eq_str(hint.why, "did you mean step?");
    tap_eq_str(hint.tries[0].line, "gsprof tables 4242 --columns");
    tap_eq_str(hint_of("SELECT 1,\n\tx\nFROM t", 2, 2, &hint), "     x\n     ^\n");
    tap_eq_str(hint_of("\xc3\xbc \x1b x", 1, 5, &hint), "    \xc3\xbc \\x1b x\n           ^\n");
    /* Positions outside of the statement. */
    tap_eq_str(hint_of("SELECT 1", 0, 0, &hint), "");
    tap_eq_str(hint_of("SELECT 1", 9, 1, &hint), "");
    tap_eq_str(hint_of("", 1, 1, &hint), "");
}

TAP_TEST(a_long_statement_is_shown_around_the_error)
{
    struct gsp_hint hint;
    gsp_auto_buf sql = {0};
    for (unsigned i = 0; i < 400; i++)
        gsp_buf_puts(&sql, "abcdefghi ");
    const char *text = hint_of(gsp_buf_cstr(&sql), 1, 2001, &hint);
    const char *mark = strchr(text, '^');
    const char *second = strchr(text, '\n');
    tap_require(mark != NULL && second != NULL);
    tap_eq_int(text[mark - second - 1], 'a');
    tap_check(strncmp(text, "    ...", 7) == 0);
    /* The largest possible column. */
    tap_check(hint_of(gsp_buf_cstr(&sql), 1, UINT32_MAX, &hint) != NULL);
}

TAP_TEST(formats_follow_the_extension)
{
    static const struct {
        const char *name;
        const char *path;
        int format; /* -1: none */
    } CASES[] = {
        {NULL, NULL, GSP_ROWS_TABLE},          {NULL, "-", GSP_ROWS_TABLE},
        {NULL, "a.csv", GSP_ROWS_CSV},         {NULL, "a.b/x.json", GSP_ROWS_JSON},
        {NULL, "x.arrow", GSP_ROWS_ARROW},     {NULL, "x.arrows", GSP_ROWS_ARROW},
        {NULL, "x.parquet", GSP_ROWS_PARQUET}, {NULL, "x.xyz", -1},
        {"json", "x.csv", GSP_ROWS_JSON},      {"nothing", NULL, -1},
    };
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        enum gsp_rows_format format = GSP_ROWS_TABLE;
        struct gsp_err err = {0};
        int rc = gsp_cli__rows_format_of(CASES[i].name, CASES[i].path, &format, &err);
        if (CASES[i].format < 0)
            tap_eq_int(rc, GSP_E_USAGE);
        else
            tap_check(rc == GSP_OK && (int)format == CASES[i].format);
    }
}

TAP_TEST(endpoints_are_recognised)
{
    tap_check(gsp_source_endpoint_is_plausible("4242"));
    tap_check(gsp_source_endpoint_is_plausible("/"));
    tap_check(gsp_source_endpoint_is_plausible("host:8080"));
    tap_check(!gsp_source_endpoint_is_plausible("qurey"));
    tap_check(!gsp_source_endpoint_is_plausible("host:"));
    tap_check(!gsp_source_endpoint_is_plausible("host:99999"));
    tap_check(!gsp_source_endpoint_is_plausible(""));
    struct gsp_endpoint endpoint;
    struct gsp_err err = {0};
    tap_eq_int(gsp_source_endpoint_find("/no/such/file", &endpoint, &err), GSP_E_NOFILE);
    tap_eq_int(gsp_source_endpoint_find("99999999999999999999", &endpoint, &err), GSP_E_USAGE);
    tap_eq_int(gsp_source_endpoint_find("2147483647", &endpoint, &err), GSP_E_NOPROC);
}

TAP_TEST(row_lists_are_rows)
{
    static const struct gsp_rows_column COLUMNS[] = {{"n", "BIGINT", NULL, 0, GSP_CELL_I64},
                                                     {"t", "VARCHAR", NULL, 0, GSP_CELL_TEXT}};
    struct gsp_row_list *row_list = NULL;
    tap_require(gsp_model_row_list_new(COLUMNS, 2, &row_list, NULL) == GSP_OK);
    for (int64_t i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "row %lld", (long long)i);
        gsp_model_row_list_add_i64(row_list, i % 7 ? i : INT64_MIN);
        gsp_model_row_list_add_text(row_list, i % 5 ? gsp_sv_of(text) : (struct gsp_sv){NULL, 0});
    }
    struct gsp_rows *rows = gsp_model_row_list_rows(row_list);
    struct gsp_batch_view batch;
    tap_require(gsp_rows_next(rows, &batch, NULL) == 1);
    tap_eq_int(batch.row_count, 1000);
    for (size_t i = 0; i < batch.row_count; i++) {
        char text[32];
        snprintf(text, sizeof(text), "row %zu", i);
        tap_check(gsp_model_values_is_null(&batch.values[0], i) == (i % 7 == 0));
        tap_check(gsp_model_values_is_null(&batch.values[1], i) == (i % 5 == 0));
        if (i % 5)
            tap_check(gsp_sv_eq(((const struct gsp_sv *)batch.values[1].data)[i], gsp_sv_of(text)));
    }
    tap_eq_int(gsp_rows_next(rows, &batch, NULL), 0);
    gsp_rows_free(rows);
}

TAP_MAIN()
