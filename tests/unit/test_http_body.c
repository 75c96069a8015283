/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "http/body.h"
#include "tap.h"

static struct gsp_body *read_ok(const char *text)
{
    struct gsp_body *body = NULL;
    tap_eq_int(gsp_http_body_read(gsp_sv_of(text), &body, NULL), GSP_OK);
    tap_check(body != NULL);
    return body;
}

static int read_code(const char *text)
{
    struct gsp_body *body = NULL;
    struct gsp_err err = {0};
    int rc = gsp_http_body_read(gsp_sv_of(text), &body, &err);
    tap_check(body == NULL);
    tap_check(err.msg[0] != '\0');
    return rc;
}

TAP_TEST(members_of_all_types)
{
    struct gsp_body *body =
        read_ok("{\"name\": \"a\\u0000b\", \"force\": true, \"rate\": 0.5, "
                "\"pids\": [1, 2], \"labels\": {\"x\": [1, \"é\"]}, \"no\": null}");
    struct gsp_sv name = {0};
    bool force = false;
    double rate = 0;
    struct gsp_http_body_ints pids = {0};
    gsp_auto_buf labels = {0};
    tap_eq_int(gsp_http_body_text(body, "name", &name, NULL), 1);
    tap_check(gsp_sv_eq(name, (struct gsp_sv){"a\0b", 3}));
    tap_eq_int(gsp_http_body_bool(body, "force", &force, NULL), 1);
    tap_check(force);
    tap_eq_int(gsp_http_body_f64(body, "rate", &rate, NULL), 1);
    tap_check(rate == 0.5);
    tap_eq_int(gsp_http_body_ints(body, "pids", 1, 100, &pids, NULL), 1);
    tap_eq_int((int)pids.count, 2);
    tap_check(pids.at && pids.at[1] == 2);
    tap_eq_int(gsp_http_body_object(body, "labels", &labels, NULL), 1);
    tap_eq_str(gsp_buf_cstr(&labels), "{\"x\":[1,\"é\"]}");
    tap_eq_int(gsp_http_body_text(body, "no", &name, NULL), 0);
    tap_eq_int(gsp_http_body_text(body, "absent", &name, NULL), 0);
    free(pids.at);
    gsp_http_body_free(body);
}

TAP_TEST(errors_name_the_member_of_a_wrong_type)
{
    struct gsp_body *body = read_ok("{\"name\": 5, \"pids\": [1.5], \"force\": \"yes\"}");
    struct gsp_err err = {0};
    struct gsp_sv name = {0};
    bool force = false;
    struct gsp_http_body_ints pids = {0};
    gsp_auto_buf labels = {0};
    tap_eq_int(gsp_http_body_text(body, "name", &name, &err), GSP_E_USAGE);
    tap_eq_str(err.msg, "name must be a string");
    tap_eq_int(gsp_http_body_bool(body, "force", &force, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_http_body_ints(body, "pids", 1, 100, &pids, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_http_body_object(body, "name", &labels, NULL), GSP_E_USAGE);
    gsp_http_body_free(body);
}

TAP_TEST(anything_but_an_object_is_rejected)
{
    tap_eq_int(read_code("[1]"), GSP_E_FORMAT);
    tap_eq_int(read_code("\"x\""), GSP_E_FORMAT);
    tap_eq_int(read_code("{\"a\": }"), GSP_E_FORMAT);
    tap_eq_int(read_code("{} x"), GSP_E_FORMAT);
    tap_eq_int(read_code("{\"a\": \"\xff\"}"), GSP_E_FORMAT);
}

TAP_TEST(depth_is_limited_before_parsing)
{
    gsp_auto_buf text = {0};
    for (int i = 0; i < 100000; i++)
        gsp_buf_puts(&text, "{\"a\":[");
    tap_eq_int(read_code(gsp_buf_cstr(&text)), GSP_E_LIMIT);
    /* Brackets in strings do not count. */
    gsp_buf_clear(&text);
    gsp_buf_puts(&text, "{\"a\": \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"{\"}");
    gsp_http_body_free(read_ok(gsp_buf_cstr(&text)));
}

TAP_TEST(an_empty_text_is_an_empty_object)
{
    struct gsp_body *body = read_ok("");
    struct gsp_sv name = {0};
    gsp_auto_buf value = {0};
    tap_eq_int(gsp_http_body_text(body, "name", &name, NULL), 0);
    tap_check(!gsp_http_body_member(body, 0, &name, &value));
    gsp_http_body_free(body);
}

TAP_TEST(members_keep_their_order)
{
    struct gsp_body *body = read_ok("{\"a\": \"text\", \"b\": 0.1, \"c\": [true]}");
    static const char *const values[] = {"text", "0.1", "[true]"};
    for (size_t i = 0; i < GSP_COUNT(values); i++) {
        struct gsp_sv name = {0};
        gsp_auto_buf value = {0};
        tap_check(gsp_http_body_member(body, i, &name, &value));
        tap_eq_str(gsp_buf_cstr(&value), values[i]);
    }
    gsp_http_body_free(body);
}

static int add_x(void *ctx, const struct gsp_body *item)
{
    double x = 0;
    if (gsp_http_body_f64(item, "x", &x, NULL) != 1)
        return GSP_E_FORMAT;
    *(double *)ctx += x;
    return GSP_OK;
}

TAP_TEST(each_object_of_an_array)
{
    struct gsp_body *body = read_ok("{\"a\": [{\"x\": 1}, {\"x\": 2}], \"none\": [], "
                                    "\"mixed\": [{\"x\": 1}, 2], \"bad\": [{}], \"no\": 1}");
    double sum = 0;
    tap_eq_int(gsp_http_body_each(body, "a", add_x, &sum, NULL), 1);
    tap_check(sum == 3);
    tap_eq_int(gsp_http_body_each(body, "none", add_x, &sum, NULL), 1);
    tap_eq_int(gsp_http_body_each(body, "absent", add_x, &sum, NULL), 0);
    tap_eq_int(gsp_http_body_each(body, "mixed", add_x, &sum, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_http_body_each(body, "no", add_x, &sum, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_http_body_each(body, "bad", add_x, &sum, NULL), GSP_E_FORMAT);
    gsp_http_body_free(body);
}

static int put_scalar(void *ctx, const struct gsp_body_scalar *value)
{
    struct gsp_buf *out = ctx;
    gsp_buf_putsv(out, value->name);
    switch (value->kind) {
    case GSP_SCALAR_NULL:
        gsp_buf_puts(out, "=null ");
        break;
    case GSP_SCALAR_BOOL:
        gsp_buf_printf(out, "=%s ", value->truth ? "true" : "false");
        break;
    case GSP_SCALAR_I64:
        gsp_buf_printf(out, "=%lld ", (long long)value->whole);
        break;
    case GSP_SCALAR_F64:
        gsp_buf_printf(out, "=%g ", value->number);
        break;
    case GSP_SCALAR_TEXT:
        gsp_buf_printf(out, "='%.*s' ", (int)value->text.len, value->text.p);
        break;
    }
    return out->len > 200 ? GSP_E_LIMIT : GSP_OK;
}

static void check_scalars(const char *json, int expected_rc, const char *expected)
{
    gsp_auto_buf text = {0};
    gsp_auto_buf out = {0};
    struct gsp_err err = {0};
    gsp_buf_printf(&text, "{\"p\": %s}", json);
    struct gsp_body *body = read_ok(gsp_buf_cstr(&text));
    tap_eq_int(gsp_http_body_scalars(body, "p", put_scalar, &out, &err), expected_rc);
    if (expected_rc < 0)
        tap_check(strstr(err.msg, expected) != NULL);
    else
        tap_eq_str(gsp_buf_cstr(&out), expected);
    gsp_http_body_free(body);
}

TAP_TEST(scalars_of_arrays_and_objects)
{
    check_scalars("[1, -2.5, \"a\", true, null, -9223372036854775808]", 1,
                  "=1 =-2.5 ='a' =true =null =-9223372036854775808 ");
    check_scalars("{\"a\": 1, \"b\": \"x\"}", 1, "a=1 b='x' ");
    check_scalars("[]", 1, "");
    check_scalars("null", 0, "");
    check_scalars("[1, [2]]", GSP_E_USAGE, "value 2 of p");
    check_scalars("[18446744073709551615]", GSP_E_USAGE, "value 1 of p");
    check_scalars("{\"a\": {}}", GSP_E_USAGE, "a of p");
    check_scalars("\"text\"", GSP_E_USAGE, "must be an array or an object");
}

TAP_TEST(whole_numbers_and_any_member)
{
    struct gsp_body *body = read_ok("{\"n\": 1794806770654089866, \"x\": 1.5, \"l\": [1, {}]}");
    gsp_auto_buf out = {0};
    int64_t n = 0;
    tap_eq_int(gsp_http_body_i64(body, "n", &n, NULL), 1);
    tap_eq_int(n, INT64_C(1794806770654089866));
    tap_eq_int(gsp_http_body_i64(body, "no", &n, NULL), 0);
    tap_eq_int(gsp_http_body_i64(body, "x", &n, NULL), GSP_E_USAGE);
    tap_eq_int(gsp_http_body_json(body, "l", &out, NULL), 1);
    tap_eq_str(gsp_buf_cstr(&out), "[1,{}]");
    tap_eq_int(gsp_http_body_json(body, "no", &out, NULL), 0);
    gsp_http_body_free(body);
}

TAP_MAIN()
