/* SPDX-License-Identifier: Apache-2.0 */
#include <yyjson.h>

#include "export/rows_arrow.h"
#include "export/rows_csv.h"
#include "export/rows_json.h"
#include "model/cells.h"
#include "profile_fixture.h"
#include "rows_fixture.h"

TAP_TEST(numbers_of_128_bits_are_exact)
{
    static const struct {
        struct gsp_i128 v;
        const char *text;
    } CASES[] = {
        {{0, 0}, "0"},
        {{7, 0}, "7"},
        {{1000000000, 0}, "1000000000"},
        {{UINT64_MAX, 0}, "18446744073709551615"},
        {{0, 1}, "18446744073709551616"},
        {{UINT64_MAX, -1}, "-1"},
        {{0, -1}, "-18446744073709551616"},
        {{UINT64_MAX, INT64_MAX}, "170141183460469231731687303715884105727"},
        {{0, INT64_MIN}, "-170141183460469231731687303715884105728"},
    };
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        gsp_auto_buf out = {0};
        gsp_model_cell_put_i128(CASES[i].v, &out);
        tap_eq_str(gsp_buf_cstr(&out), CASES[i].text);
    }
}

TAP_TEST(column_names_are_unique)
{
    static const char *const GIVEN[] = {"a", "", "a", "a_2", "", "a", "column_2", "\xff", NULL};
    static const char *const EXPECTED[] = {"a",          "column_2",     "a_2",
                                           "a_2_2",      "column_5",     "a_3",
                                           "column_2_2", "\xef\xbf\xbd", "column_9"};
    struct gsp_rows_column columns[GSP_COUNT(GIVEN)] = {0};
    for (size_t i = 0; i < GSP_COUNT(GIVEN); i++)
        columns[i].name = GIVEN[i];
    struct fix_rows fix = fix_rows_of(columns, GSP_COUNT(columns), NULL, 0);
    struct gsp_rows_names names;
    tap_require(gsp_model_rows_names_new(&fix.rows, &names, NULL) == GSP_OK);
    for (size_t i = 0; i < GSP_COUNT(EXPECTED); i++)
        if (!tap_check(gsp_sv_eq(names.at[i], gsp_sv_of(EXPECTED[i]))))
            printf("# %zu: %.*s\n", i, (int)names.at[i].len, names.at[i].p);
    gsp_model_rows_names_free(&names);
}

TAP_TEST(json_has_every_kind)
{
    struct fix_rows fix = fix_rows_all();
    gsp_auto_buf text = {0};
    tap_require(fix_rows_write(gsp_export_rows_write_json, &fix, &text, NULL) == GSP_OK);
    tap_eq_str(gsp_buf_cstr(&text),
               "[\n"
               "{\"i\":1,\"sum\":42,\"f\":0.5,\"b\":true,\"t\":\"plain\",\"j\":[1,2],"
               "\"d\":\"forward\"},\n"
               "{\"i\":null,\"sum\":null,\"f\":null,\"b\":null,\"t\":null,\"j\":null,\"d\":null},\n"
               "{\"i\":-7,\"sum\":-1,\"f\":null,\"b\":false,\"t\":\"a \\\"b\\\",\\nc\\u001b[\","
               "\"j\":{\"a\": null},\"d\":\"back,ward\"},\n"
               "{\"i\":9223372036854775807,\"sum\":99999999999999999999999999999999999999,"
               "\"f\":1e+300,\"b\":true,\"t\":\"\xe6\x97\xa5\xe6\x9c\xac \xef\xbf\xbd\",\"j\":[],"
               "\"d\":\"\xc3\xbc\"}\n"
               "]\n");
}

TAP_TEST(json_of_many_batches_and_of_none_is_an_array)
{
    for (size_t batches = 0; batches < 3; batches++) {
        struct fix_rows fix = fix_rows_all();
        fix.batch_count = batches;
        gsp_auto_buf text = {0};
        tap_require(fix_rows_write(gsp_export_rows_write_json, &fix, &text, NULL) == GSP_OK);
        yyjson_doc *doc = yyjson_read(text.p, text.len, YYJSON_READ_BIGNUM_AS_RAW);
        tap_require(doc != NULL);
        tap_eq_int(yyjson_arr_size(yyjson_doc_get_root(doc)), batches * 4);
        yyjson_doc_free(doc);
    }
}

TAP_TEST(json_of_a_failed_query_is_incomplete)
{
    struct fix_rows fix = fix_rows_all();
    fix.batch_count = 3;
    fix.fail_at = 2;
    gsp_auto_buf text = {0};
    struct gsp_err err = {0};
    tap_eq_int(fix_rows_write(gsp_export_rows_write_json, &fix, &text, &err), GSP_E_TIMEOUT);
    tap_eq_str(err.msg, "the query took too long");
    tap_check(yyjson_read(text.p, text.len, YYJSON_READ_BIGNUM_AS_RAW) == NULL);
}

TAP_TEST(csv_has_every_kind)
{
    struct fix_rows fix = fix_rows_all();
    gsp_auto_buf text = {0};
    tap_require(fix_rows_write(gsp_export_rows_write_csv, &fix, &text, NULL) == GSP_OK);
    tap_eq_str(gsp_buf_cstr(&text),
               "i,sum,f,b,t,j,d\n"
               "1,42,0.5,true,plain,\"[1,2]\",forward\n"
               ",,,,,,\n"
               "-7,-1,nan,false,\"a \"\"b\"\",\nc\x1b[\",\"{\"\"a\"\": null}\","
               "\"back,ward\"\n"
               "9223372036854775807,99999999999999999999999999999999999999,"
               "1e+300,true,\xe6\x97\xa5\xe6\x9c\xac \xef\xbf\xbd,[],\xc3\xbc\n");
}

TAP_TEST(csv_distinguishes_null_from_empty)
{
    static const struct gsp_rows_column COLUMNS[] = {{"a \"x\"", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
                                                     {"", "VARCHAR", NULL, 0, GSP_CELL_TEXT}};
    static const struct gsp_sv TEXTS[] = {FIX_SV(""), FIX_SV("\""), FIX_SV(" x"), FIX_SV("x")};
    static const uint64_t VALID[] = {0x6};
    static const struct gsp_values VALUES[] = {{TEXTS, NULL}, {TEXTS, VALID}};
    struct fix_rows fix = fix_rows_of(COLUMNS, 2, VALUES, 4);
    gsp_auto_buf text = {0};
    tap_require(fix_rows_write(gsp_export_rows_write_csv, &fix, &text, NULL) == GSP_OK);
    tap_eq_str(gsp_buf_cstr(&text), "\"a \"\"x\"\"\",\"\"\n"
                                    "\"\",\n"
                                    "\"\"\"\",\"\"\"\"\n"
                                    "\" x\",\" x\"\n"
                                    "x,\n");
}

/* Checks the kinds of the messages of a stream, as letters, and whether it has an end marker. */
static void check_stream(const struct gsp_buf *text, const char *kinds, bool ended)
{
    size_t at = 0;
    size_t count = 0;
    bool has_end = false;
    while (at + 8 <= text->len && !has_end) {
        uint32_t head[2];
        memcpy(head, text->p + at, sizeof(head));
        tap_require(head[0] == UINT32_MAX);
        tap_require(head[1] % 8 == 0);
        at += sizeof(head);
        has_end = head[1] == 0;
        if (has_end)
            break;
        /* The vtable has two bytes per field, after four: field 1 is the kind, field 3 the
         * length. */
        const char *meta = text->p + at;
        uint32_t root;
        memcpy(&root, meta, sizeof(root));
        int32_t to_vtable;
        memcpy(&to_vtable, meta + root, sizeof(to_vtable));
        const char *vtable = meta + root - to_vtable;
        uint16_t kind_at;
        uint16_t length_at;
        memcpy(&kind_at, vtable + 6, sizeof(kind_at));
        memcpy(&length_at, vtable + 10, sizeof(length_at));
        int64_t length;
        memcpy(&length, meta + root + length_at, sizeof(length));
        tap_check(length % 8 == 0);
        tap_require(count < strlen(kinds));
        tap_eq_int("?SDR"[(unsigned char)meta[root + kind_at]], kinds[count]);
        count++;
        at += head[1] + (size_t)length;
    }
    tap_eq_int(count, strlen(kinds));
    tap_eq_int(has_end, ended);
    tap_eq_int(at, text->len);
}

TAP_TEST(arrow_streams_are_framed)
{
    static const struct {
        size_t batches;
        const char *kinds;
    } CASES[] = {{0, "SD"}, {1, "SDR"}, {2, "SDR"}, {16385, "SDRR"}};
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        struct fix_rows fix = fix_rows_all();
        fix.batch_count = CASES[i].batches;
        gsp_auto_buf text = {0};
        tap_require(fix_rows_write(gsp_export_rows_write_arrow, &fix, &text, NULL) == GSP_OK);
        check_stream(&text, CASES[i].kinds, true);
    }
}

/* tests/integration/test_arrow.py reads this file with other programs. */
TAP_TEST(arrow_golden)
{
    struct fix_rows fix = fix_rows_all();
    gsp_auto_buf text = {0};
    tap_require(fix_rows_write(gsp_export_rows_write_arrow, &fix, &text, NULL) == GSP_OK);
    fix_check_golden(&text, "arrow/kinds.arrows");
}

TAP_TEST(arrow_of_a_failed_query_has_no_end_marker)
{
    struct fix_rows fix = fix_rows_all();
    fix.batch_count = 3;
    fix.fail_at = 2;
    gsp_auto_buf text = {0};
    tap_eq_int(fix_rows_write(gsp_export_rows_write_arrow, &fix, &text, NULL), GSP_E_TIMEOUT);
    check_stream(&text, "SD", false);
}

TAP_TEST(writing_stops_when_the_output_fails)
{
    int (*const WRITERS[])(struct gsp_rows *, struct gsp_out *, struct gsp_err *) = {
        gsp_export_rows_write_json, gsp_export_rows_write_csv, gsp_export_rows_write_arrow};
    for (size_t i = 0; i < GSP_COUNT(WRITERS); i++) {
        struct fix_rows fix = fix_rows_all();
        fix.batch_count = 1000000;
        struct gsp_out out;
        gsp_out_init(&out, -1);
        tap_eq_int(WRITERS[i](&fix.rows, &out, NULL), GSP_OK);
        tap_check(fix.given < fix.batch_count);
        tap_eq_int(gsp_out_finish(&out, NULL), GSP_E_IO);
    }
}

TAP_MAIN()
