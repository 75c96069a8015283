/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "client/json_rows.h"
#include "model/cells.h"
#include "tap.h"

/* All cells, column by column: "name:kind=v,v;". */
static void flatten(const char *text, struct gsp_buf *out)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch = {0};
    struct gsp_err err = {0};
    gsp_buf_clear(out);
    tap_eq_int(gsp_client_rows_from_json(gsp_sv_of(text), NULL, &rows, &err), GSP_OK);
    if (!rows)
        return;
    int more = gsp_rows_next(rows, &batch, &err);
    for (size_t i = 0; i < rows->column_count; i++) {
        gsp_buf_printf(out, "%s:%s=", rows->columns[i].name, rows->columns[i].sql_type);
        for (size_t row = 0; more > 0 && row < batch.row_count; row++) {
            gsp_buf_puts(out, row ? "," : "");
            if (gsp_model_values_is_null(&batch.values[i], row))
                gsp_buf_puts(out, "-");
            else
                gsp_model_cell_put(&rows->columns[i], &batch.values[i], row, out);
        }
        gsp_buf_puts(out, ";");
    }
    tap_eq_int(gsp_rows_next(rows, &batch, &err), 0);
    gsp_rows_free(rows);
}

TAP_TEST(columns_have_the_types_of_their_values)
{
    gsp_auto_buf out = {0};
    flatten("[{\"i\":9223372036854775807,\"f\":1,\"b\":true,\"t\":\"x\",\"n\":null},"
            "{\"i\":-1,\"f\":0.5,\"b\":null,\"t\":7,\"n\":null}]",
            &out);
    tap_eq_str(gsp_buf_cstr(&out), "i:BIGINT=9223372036854775807,-1;f:DOUBLE=1,0.5;"
                                   "b:BOOLEAN=true,-;t:VARCHAR=x,7;n:VARCHAR=-,-;");
}

TAP_TEST(objects_with_different_members)
{
    gsp_auto_buf out = {0};
    flatten("[{\"a\":1},{\"b\":[1,{\"c\":null}]},{},{\"b\":true,\"a\":2,\"a\":3}]", &out);
    tap_eq_str(gsp_buf_cstr(&out), "a:BIGINT=1,-,-,2;b:VARCHAR=-,[1,{\"c\":null}],-,true;");
    flatten("[]", &out);
    tap_eq_str(gsp_buf_cstr(&out), "");
}

TAP_TEST(object_with_columns_and_warnings)
{
    static const char TEXT[] =
        "{\"columns\": [{\"name\":\"a\",\"type\":\"BIGINT\"},{\"x\":[1],\"name\":\"b\"}],"
        "\"more\":{\"a\":[2]},\"rows\":[%s],\"warnings\":[\"one\",[],\"two\"]}";
    gsp_auto_buf text = {0};
    gsp_auto_buf out = {0};
    gsp_auto_buf warnings = {0};
    struct gsp_rows *rows = NULL;
    gsp_buf_printf(&text, TEXT, "");
    flatten(gsp_buf_cstr(&text), &out);
    tap_eq_str(gsp_buf_cstr(&out), "a:VARCHAR=;b:VARCHAR=;");
    gsp_buf_clear(&text);
    gsp_buf_printf(&text, TEXT, "{\"b\":1,\"c\":2}");
    flatten(gsp_buf_cstr(&text), &out);
    tap_eq_str(gsp_buf_cstr(&out), "a:VARCHAR=-;b:BIGINT=1;c:BIGINT=2;");
    tap_eq_int(gsp_client_rows_from_json(gsp_buf_sv(&text), &warnings, &rows, NULL), GSP_OK);
    tap_eq_str(gsp_buf_cstr(&warnings), "one\ntwo\n");
    gsp_rows_free(rows);
}

TAP_TEST(more_rows_than_a_word_has_bits)
{
    gsp_auto_buf text = {0};
    gsp_auto_buf out = {0};
    gsp_buf_putc(&text, '[');
    for (int i = 0; i < 130; i++)
        gsp_buf_printf(&text, "%s{\"a\":%s}", i ? "," : "", i == 127 ? "null" : "1");
    gsp_buf_putc(&text, ']');
    flatten(gsp_buf_cstr(&text), &out);
    const char *flat = gsp_buf_cstr(&out);
    tap_check(flat && strlen(flat) == strlen("a:BIGINT=") + 260);
    tap_check(flat && strstr(flat, "1,-,1,1;") != NULL);
}

TAP_TEST(rejects_other_json)
{
    static const char *const TEXTS[] = {"",     "{}",           "[1]",
                                        "[{}",  "[{}]x",        "[[]]",
                                        "null", "{\"rows\":1}", "{\"columns\":[1],\"rows\":[]}"};
    for (size_t i = 0; i < GSP_COUNT(TEXTS); i++) {
        struct gsp_rows *rows = NULL;
        struct gsp_err err = {0};
        tap_eq_int(gsp_client_rows_from_json(gsp_sv_of(TEXTS[i]), NULL, &rows, &err), GSP_E_FORMAT);
        tap_check(!rows && err.msg[0]);
    }
}

TAP_MAIN()
