/* SPDX-License-Identifier: Apache-2.0 */
#include <yyjson.h>

#include "export/function_names.h"
#include "profile_fixture.h"

static yyjson_val *at(yyjson_doc *doc, const char *pointer)
{
    yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);
    if (!value)
        printf("# nothing at %s\n", pointer);
    tap_require(value != NULL);
    return value;
}

static const char *text_at(yyjson_doc *doc, const char *pointer)
{
    return yyjson_get_str(at(doc, pointer));
}

static struct gsp_profile *read_text(const char *text)
{
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    int rc = fix_read(gsp_sv_of(text), "json", &q, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return q;
}

TAP_TEST(round_trip)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "json", NULL, &bytes);
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(gsp_buf_sv(&bytes), "json", &q, &err), GSP_OK);
    tap_eq_str(err.msg, "");
    fix_check_same(p, q);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(round_trip_of_totals)
{
    struct gsp_profile *p = fix_small();
    struct gsp_total sum = {.thread = 1, .stack = 2, .count = 1000, .weight = 5000};
    tap_require(gsp_model_profile_add_total(p, &sum, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    fix_write(p, "json", NULL, &bytes);
    struct gsp_profile *q = NULL;
    tap_require(fix_read(gsp_buf_sv(&bytes), "json", &q, NULL) == GSP_OK);
    tap_require(gsp_model_profile_total_count(p) == gsp_model_profile_total_count(q));
    for (size_t i = 0; i < gsp_model_profile_total_count(p); i++) {
        const struct gsp_total *a = gsp_model_profile_total_at(p, i);
        const struct gsp_total *b = gsp_model_profile_total_at(q, i);
        tap_check(a->count == b->count && a->weight == b->weight && a->thread == b->thread &&
                  fix_same_stack(p, a->stack, q, b->stack));
    }
    tap_check(!gsp_model_profile_has_samples(q));
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(golden)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "json", NULL, &bytes);
    fix_check_golden(&bytes, "json/small.json");
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_TEST(members_that_scripts_rely_on)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "json", NULL, &bytes);
    yyjson_doc *doc = yyjson_read(bytes.p, bytes.len, 0);
    tap_require(doc != NULL);
    tap_eq_str(text_at(doc, "/process_name"), "python3");
    tap_eq_int(yyjson_arr_size(at(doc, "/samples")), 10);
    tap_eq_int(yyjson_get_uint(at(doc, "/samples/2/thread_id")), 100);
    tap_check(yyjson_get_num(at(doc, "/samples/2/timestamp")) == 1700000000.133461);
    /* Only functions outside the main script have a module. */
    tap_eq_str(text_at(doc, "/samples/2/stack/0"), "<module>");
    tap_eq_str(text_at(doc, "/samples/2/stack/1"), "main");
    tap_eq_str(text_at(doc, "/samples/2/stack/2"), "features.load");
    tap_eq_str(text_at(doc, "/samples/4/stack/0"), "threading.Thread._bootstrap");
    tap_eq_str(text_at(doc, "/samples/4/stack/1"), "sgemm");
    tap_eq_str(text_at(doc, "/samples/5/stack/2"), "pkg.a;b\n<&\"\xc3\xa9%3B");
    tap_eq_int(yyjson_arr_size(at(doc, "/samples/9/stack")), 0);

    /* A recursive function counts once per sample in the total; only the leaf counts as own. */
    tap_eq_int(yyjson_get_uint(at(doc, "/functions/features.load/samples")), 3);
    tap_check(yyjson_get_num(at(doc, "/functions/features.load/time")) == 0.03);
    tap_eq_int(yyjson_get_uint(at(doc, "/functions/features.load/own_samples")), 3);
    tap_eq_int(yyjson_get_uint(at(doc, "/functions/main/samples")), 6);
    tap_eq_int(yyjson_get_uint(at(doc, "/functions/main/own_samples")), 2);
    tap_check(yyjson_get_num(at(doc, "/functions/main/own_time")) == 0.02);

    tap_eq_int(yyjson_get_uint(at(doc, "/pid")), 100);
    tap_check(yyjson_get_num(at(doc, "/rate")) == 100);
    tap_check(yyjson_get_num(at(doc, "/duration")) == 0.1);
    tap_check(yyjson_get_num(at(doc, "/start_time")) == 1700000000.123456);
    tap_eq_str(text_at(doc, "/unit"), "ns");
    tap_eq_int(yyjson_get_uint(at(doc, "/losses/torn")), 1);
    tap_eq_int(yyjson_get_uint(at(doc, "/losses/skipped")), 5);
    tap_check(yyjson_is_null(at(doc, "/processes/0/ppid")));
    tap_eq_int(yyjson_get_uint(at(doc, "/processes/1/ppid")), 100);
    tap_eq_str(text_at(doc, "/threads/1/name"), "loader \"1\";<x>");
    tap_check(yyjson_is_true(at(doc, "/threads/0/main")));
    tap_eq_str(text_at(doc, "/frames/0/file"), "/srv/app.py");
    tap_eq_int(yyjson_get_uint(at(doc, "/frames/0/line")), 40);
    tap_check(yyjson_is_true(at(doc, "/samples/0/gil")));
    tap_check(yyjson_is_false(at(doc, "/samples/1/gil")));
    tap_eq_int(yyjson_get_uint(at(doc, "/samples/0/frames/2")), 2);
    yyjson_doc_free(doc);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

static const char MINIMAL[] =
    "{\"process_name\": \"python\", \"samples\": [{\"thread_id\": 12345, \"stack\": [\"main\", "
    "\"app.main\", \"viewmodel.load_images\", \"features.batch_extract_features\"], "
    "\"timestamp\": 1234567890.123}, {\"thread_id\": 12345, \"stack\": [\"main\"], "
    "\"timestamp\": 1234567890.623}], \"functions\": {\"features.batch_extract_features\": "
    "{\"samples\": 1523, \"time\": 12.45}}}";

TAP_TEST(the_minimal_form_is_read)
{
    struct gsp_profile *q = read_text(MINIMAL);
    tap_eq_int(gsp_model_profile_thread_count(q), 1);
    tap_eq_int(gsp_model_profile_thread_at(q, 0)->os_id, 12345);
    tap_check(gsp_sv_eq(gsp_model_profile_string_at(q, gsp_model_profile_process_at(q, 0)->name),
                        gsp_sv_of("python")));
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, q);
    tap_require(gsp_model_sample_iter_next(&iter, &sample));
    tap_eq_int(sample.time_ns, 0);
    tap_eq_int(gsp_model_profile_meta(q)->start_ns, 1234567890123000000);
    tap_eq_int(gsp_model_profile_stack_depth(q, sample.stack), 4);
    /* The weight of a sample follows from the functions. */
    tap_eq_int(gsp_model_profile_meta(q)->unit, GSP_UNIT_NS);
    tap_eq_int(sample.weight, 8174655);
    tap_require(gsp_model_sample_iter_next(&iter, &sample));
    tap_eq_int(sample.time_ns, 500000000);
    gsp_model_profile_free(q);
}

TAP_TEST(without_times_the_unit_is_a_count)
{
    struct gsp_profile *q =
        read_text("{\"samples\": [{\"stack\": [\"a\", \"b\"]}, {\"stack\": [\"a\", \"b\"]}, "
                  "{\"stack\": [], \"count\": 3, \"weight\": 7}]}");
    tap_eq_int(gsp_model_profile_meta(q)->unit, GSP_UNIT_COUNT);
    tap_eq_int(gsp_model_profile_total_count(q), 2);
    tap_eq_int(gsp_model_profile_total_at(q, 0)->count, 2);
    tap_eq_int(gsp_model_profile_total_at(q, 0)->weight, 2);
    tap_eq_int(gsp_model_profile_total_at(q, 1)->count, 3);
    tap_eq_int(gsp_model_profile_total_at(q, 1)->weight, 7);
    gsp_model_profile_free(q);
}

static void check_rejected(const char *text, const char *message)
{
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(gsp_sv_of(text), "json", &q, &err), GSP_E_FORMAT);
    tap_eq_str(err.msg, message);
}

TAP_TEST(malformed_profiles_are_rejected)
{
    struct gsp_profile *q = NULL;
    tap_eq_int(fix_read(gsp_sv_of(""), "json", &q, NULL), GSP_E_FORMAT);
    tap_eq_int(fix_read(gsp_sv_of("{\"samples\": ["), "json", &q, NULL), GSP_E_FORMAT);
    check_rejected("[]", "not a JSON object");
    check_rejected("{}", "no list of samples");
    check_rejected("{\"samples\": {}}", "no list of samples");
    check_rejected("{\"samples\": [1]}", "sample 0 is malformed");
    check_rejected("{\"samples\": [{\"stack\": []}, {}]}", "sample 1 is malformed");
    check_rejected("{\"samples\": [{\"stack\": [null]}]}", "sample 0 is malformed");
    check_rejected("{\"samples\": [{\"frames\": [0]}]}", "sample 0 is malformed");
    check_rejected("{\"samples\": [{\"stack\": [], \"timestamp\": 1e300}]}",
                   "sample 0 is malformed");
    check_rejected("{\"samples\": [], \"unit\": \"parsec\"}", "unknown unit \"parsec\"");
}

TAP_TEST(numbers_out_of_range_are_ignored)
{
    struct gsp_profile *q = read_text(
        "{\"rate\": 1e-300, \"duration\": -1e300, \"period_ns\": -5, \"pid\": 99999999999999,"
        " \"ticks\": -1, \"start_time\": 1e308, \"losses\": 7, \"functions\": [1],"
        " \"frames\": [{\"name\": \"f\", \"line\": 99999999999, \"first_line\": -3}],"
        " \"threads\": [{\"thread_id\": -1, \"pid\": -7}],"
        " \"samples\": [{\"frames\": [0], \"weight\": 1e300, \"timestamp\": 8.8e9},"
        " {\"frames\": [0], \"weight\": 18446744073709551615, \"timestamp\": 0}]}");
    tap_eq_int(gsp_model_profile_sample_count(q), 2);
    tap_eq_int(gsp_model_profile_meta(q)->duration_ns, 0);
    tap_eq_int(gsp_model_profile_meta(q)->period_ns, 0);
    tap_eq_int(gsp_model_profile_frame_at(q, 1)->line, 0);
    gsp_model_profile_free(q);
}

TAP_TEST(damaged_input_is_handled_safely)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "json", NULL, &bytes);
    fix_mangle(gsp_buf_sv(&bytes), "json", 7);
    fix_mangle((struct gsp_sv){MINIMAL, sizeof(MINIMAL) - 1}, "json", 1);
    struct gsp_profile *q = NULL;
    tap_eq_int(fix_read((struct gsp_sv){bytes.p, bytes.len / 2}, "json", &q, NULL), GSP_E_FORMAT);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

static void check_module(const char *path, const char *module)
{
    struct gsp_sv found = gsp_export__module_of(gsp_sv_of(path));
    tap_check(gsp_sv_eq(found, gsp_sv_of(module)));
    if (!gsp_sv_eq(found, gsp_sv_of(module)))
        printf("# %s gave %.*s\n", path, (int)found.len, found.p);
}

TAP_TEST(modules_by_file_name)
{
    check_module("/a/b/features.py", "features");
    check_module("features.py", "features");
    check_module("/a/torch/__init__.py", "torch");
    check_module("/a/app/__main__.py", "app");
    check_module("__init__.py", "");
    check_module("/__init__.py", "");
    check_module("<frozen importlib._bootstrap>", "importlib._bootstrap");
    check_module("<string>", "");
    check_module("/usr/lib/libc.so.6", "");
    check_module("", "");
    check_module(".py", "");
}

TAP_MAIN()
