/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/json.h"
#include "tap.h"

#define SV(literal) ((struct gsp_sv){(literal), sizeof(literal) - 1})

TAP_TEST(commas_and_nesting)
{
    gsp_auto_buf buf = {0};
    struct gsp_json json;
    gsp_json_init(&json, &buf);
    gsp_json_obj_begin(&json);
    gsp_json_key(&json, "a");
    gsp_json_arr_begin(&json);
    gsp_json_i64(&json, 1);
    gsp_json_obj_begin(&json);
    gsp_json_obj_end(&json);
    gsp_json_arr_begin(&json);
    gsp_json_arr_end(&json);
    gsp_json_null(&json);
    gsp_json_arr_end(&json);
    gsp_json_keysv(&json, SV("b\"c"));
    gsp_json_bool(&json, true);
    gsp_json_key(&json, "d");
    gsp_json_str(&json, NULL);
    gsp_json_obj_end(&json);
    tap_eq_str(gsp_buf_cstr(&buf), "{\"a\":[1,{},[],null],\"b\\\"c\":true,\"d\":null}");
}

TAP_TEST(unknown_values_are_null)
{
    gsp_auto_buf buf = {0};
    struct gsp_json json;
    gsp_json_init(&json, &buf);
    gsp_json_obj_begin(&json);
    for (int64_t v = 0; v < 2; v++)
        if (gsp_json_key_or_null(&json, v ? "one" : "zero", v))
            gsp_json_i64(&json, v);
    gsp_json_obj_end(&json);
    tap_eq_str(gsp_buf_cstr(&buf), "{\"zero\":null,\"one\":1}");
}

static const char *text_of(struct gsp_buf *buf, struct gsp_sv text)
{
    struct gsp_json json;
    gsp_buf_clear(buf);
    gsp_json_init(&json, buf);
    gsp_json_sv(&json, text);
    return gsp_buf_cstr(buf);
}

TAP_TEST(strings_are_escaped)
{
    gsp_auto_buf buf = {0};
    tap_eq_str(text_of(&buf, SV("a\"b\\c/\b\f\n\r\t")), "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\"");
    tap_eq_str(text_of(&buf, SV("\0\x01\x1f\x7f")), "\"\\u0000\\u0001\\u001f\\u007f\"");
    tap_eq_str(text_of(&buf, SV("\xc3\xa9\xf0\x9f\x98\x80")), "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    tap_eq_str(text_of(&buf, (struct gsp_sv){NULL, 0}), "\"\"");
}

TAP_TEST(invalid_utf8_is_replaced)
{
    gsp_auto_buf buf = {0};
    tap_eq_str(text_of(&buf, SV("a\xff"
                                "b\xed\xa0\x80")),
               "\"a\xef\xbf\xbd"
               "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    tap_eq_str(text_of(&buf, SV("\xe2\x82")), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static const char *number_of(struct gsp_buf *buf, double v)
{
    struct gsp_json json;
    gsp_buf_clear(buf);
    gsp_json_init(&json, buf);
    gsp_json_f64(&json, v);
    return gsp_buf_cstr(buf);
}

TAP_TEST(reals_are_short_and_exact)
{
    gsp_auto_buf buf = {0};
    tap_eq_str(number_of(&buf, 0.1), "0.1");
    tap_eq_str(number_of(&buf, 12.45), "12.45");
    tap_eq_str(number_of(&buf, 3), "3");
    tap_eq_str(number_of(&buf, (double)NAN), "null");
    tap_eq_str(number_of(&buf, (double)-INFINITY), "null");
    static const double HARD[] = {1.0 / 3, DBL_MAX, DBL_MIN, DBL_EPSILON, 5e-324, 0.1 + 0.2, -1e22};
    for (size_t i = 0; i < GSP_COUNT(HARD); i++)
        tap_check(strtod(number_of(&buf, HARD[i]), NULL) == HARD[i]);
}

TAP_TEST(integer_limits)
{
    gsp_auto_buf buf = {0};
    struct gsp_json json;
    gsp_json_init(&json, &buf);
    gsp_json_arr_begin(&json);
    gsp_json_i64(&json, INT64_MIN);
    gsp_json_i64(&json, INT64_MAX);
    gsp_json_u64(&json, UINT64_MAX);
    gsp_json_arr_end(&json);
    tap_eq_str(gsp_buf_cstr(&buf),
               "[-9223372036854775808,9223372036854775807,18446744073709551615]");
}

TAP_TEST(fixed_point_is_exact)
{
    gsp_auto_buf buf = {0};
    struct gsp_json json;
    gsp_json_init(&json, &buf);
    gsp_json_arr_begin(&json);
    gsp_json_fixed(&json, 1234567890123, 9);
    gsp_json_fixed(&json, 1500000000, 9);
    gsp_json_fixed(&json, 2000000000, 9);
    gsp_json_fixed(&json, 1, 9);
    gsp_json_fixed(&json, -5, 1);
    gsp_json_fixed(&json, 42, 0);
    gsp_json_fixed(&json, INT64_MIN, 18);
    gsp_json_arr_end(&json);
    tap_eq_str(gsp_buf_cstr(&buf), "[1234.567890123,1.5,2.0,0.000000001,-0.5,42,"
                                   "-9.223372036854775808]");
}

TAP_TEST(nesting_up_to_the_limit)
{
    gsp_auto_buf buf = {0};
    struct gsp_json json;
    gsp_json_init(&json, &buf);
    for (int i = 0; i < GSP_JSON_DEPTH_MAX; i++)
        gsp_json_arr_begin(&json);
    gsp_json_i64(&json, 1);
    gsp_json_i64(&json, 2);
    for (int i = 0; i < GSP_JSON_DEPTH_MAX; i++)
        gsp_json_arr_end(&json);
    tap_check(!buf.failed);
    tap_eq_int(buf.len, 2 * GSP_JSON_DEPTH_MAX + 3);
}

TAP_MAIN()
