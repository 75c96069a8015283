/* SPDX-License-Identifier: Apache-2.0 */
#include <yyjson.h>

#include "base/time.h"
#include "profile_fixture.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

static void check_frame(yyjson_val *frame)
{
    size_t i = 0;
    size_t count = 0;
    yyjson_val *key = NULL;
    yyjson_val *value = NULL;
    tap_check(yyjson_is_str(yyjson_obj_get(frame, "name")));
    yyjson_obj_foreach(frame, i, count, key, value)
    {
        const char *name = yyjson_get_str(key);
        bool is_text = strcmp(name, "name") == 0 || strcmp(name, "file") == 0;
        bool is_number = strcmp(name, "line") == 0 || strcmp(name, "col") == 0;
        tap_check((is_text && yyjson_is_str(value)) || (is_number && yyjson_is_num(value)));
    }
}

/* Checks the schema of a sampled profile, and conditions that a schema cannot express: the lists
 * have the same length, every index is in the table, and the weights do not pass the end. */
static void check_profile(yyjson_val *profile, size_t frame_count)
{
    static const char *const units[] = {"none", "nanoseconds", "bytes"};
    bool known_unit = false;
    for (size_t i = 0; i < GSP_COUNT(units); i++)
        known_unit = known_unit || yyjson_equals_str(yyjson_obj_get(profile, "unit"), units[i]);
    tap_check(known_unit);
    tap_check(yyjson_equals_str(yyjson_obj_get(profile, "type"), "sampled"));
    tap_check(yyjson_is_str(yyjson_obj_get(profile, "name")));
    tap_check(yyjson_is_num(yyjson_obj_get(profile, "startValue")));
    tap_check(yyjson_is_num(yyjson_obj_get(profile, "endValue")));
    yyjson_val *samples = yyjson_obj_get(profile, "samples");
    yyjson_val *weights = yyjson_obj_get(profile, "weights");
    tap_eq_int(yyjson_arr_size(samples), yyjson_arr_size(weights));
    double sum = yyjson_get_num(yyjson_obj_get(profile, "startValue"));
    size_t i = 0;
    size_t count = 0;
    yyjson_val *item = NULL;
    yyjson_arr_foreach(weights, i, count, item)
    {
        tap_check(yyjson_get_num(item) >= 0);
        sum += yyjson_get_num(item);
    }
    tap_check(sum <= yyjson_get_num(yyjson_obj_get(profile, "endValue")));
    yyjson_arr_foreach(samples, i, count, item)
    {
        size_t k = 0;
        size_t depth = 0;
        yyjson_val *index = NULL;
        tap_check(yyjson_is_arr(item));
        yyjson_arr_foreach(item, k, depth, index)
        {
            tap_check(yyjson_is_uint(index) && yyjson_get_uint(index) < frame_count);
        }
    }
}

static yyjson_doc *check_structure(const struct gsp_buf *bytes)
{
    yyjson_doc *doc = yyjson_read(bytes->p, bytes->len, 0);
    tap_require(doc != NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    tap_check(yyjson_equals_str(yyjson_obj_get(root, "$schema"), SCHEMA));
    yyjson_val *frames = yyjson_ptr_get(root, "/shared/frames");
    tap_require(yyjson_is_arr(frames));
    yyjson_val *profiles = yyjson_obj_get(root, "profiles");
    tap_require(yyjson_is_arr(profiles));
    size_t i = 0;
    size_t count = 0;
    yyjson_val *item = NULL;
    yyjson_arr_foreach(frames, i, count, item)
    {
        check_frame(item);
    }
    yyjson_arr_foreach(profiles, i, count, item)
    {
        check_profile(item, yyjson_arr_size(frames));
    }
    return doc;
}

static yyjson_val *at(yyjson_doc *doc, const char *pointer)
{
    yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);
    if (!value)
        printf("# nothing at %s\n", pointer);
    tap_require(value != NULL);
    return value;
}

TAP_TEST(the_file_follows_the_schema)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "speedscope", NULL, &bytes);
    yyjson_doc_free(check_structure(&bytes));
    fix_check_golden(&bytes, "speedscope/small.speedscope.json");
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_TEST(threads_are_aligned_and_gaps_are_kept)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "speedscope", NULL, &bytes);
    yyjson_doc *doc = check_structure(&bytes);
    tap_eq_int(yyjson_arr_size(at(doc, "/profiles")), 3);
    tap_check(yyjson_equals_str(at(doc, "/profiles/0/name"), "MainThread (pid 100, tid 100)"));
    /* Thread 0: four consecutive samples, a gap of 20 ms, one more sample. */
    tap_eq_int(yyjson_arr_size(at(doc, "/profiles/0/samples")), 6);
    tap_eq_int(yyjson_get_uint(at(doc, "/profiles/0/weights/0")), 10000000);
    tap_eq_int(yyjson_arr_size(at(doc, "/profiles/0/samples/4")), 0);
    tap_eq_int(yyjson_get_uint(at(doc, "/profiles/0/weights/4")), 20002000);
    /* Thread 1 starts 10 ms after the others; all begin at 0. */
    tap_eq_int(yyjson_arr_size(at(doc, "/profiles/1/samples/0")), 0);
    tap_eq_int(yyjson_get_uint(at(doc, "/profiles/1/weights/0")), 10001000);
    for (int i = 0; i < 3; i++) {
        char pointer[40];
        snprintf(pointer, sizeof(pointer), "/profiles/%d/startValue", i);
        tap_eq_int(yyjson_get_uint(at(doc, pointer)), 0);
        snprintf(pointer, sizeof(pointer), "/profiles/%d/endValue", i);
        tap_eq_int(yyjson_get_uint(at(doc, pointer)), 80004000);
    }
    yyjson_doc_free(doc);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_TEST(a_span_ends_at_the_time_of_its_sample)
{
    static const int64_t samples_ms[][2] = {{10, 10}, {20, 10}, {120, 100}, {130, 10}, {200, 10}};
    static const int64_t spans_ms[] = {10, 10, 100, 10, 60, 10}; /* the fifth is a gap */
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    gsp_model_profile_meta(p)->period_ns = 10 * GSP_NS_PER_MS;
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    const uint32_t stack = fix_stack(p, GSP_NONE, fix_frame(p, "f", "f.py", 1));
    for (size_t i = 0; i < GSP_COUNT(samples_ms); i++) {
        const struct gsp_sample sample = {.time_ns = samples_ms[i][0] * GSP_NS_PER_MS,
                                          .weight = samples_ms[i][1] * GSP_NS_PER_MS,
                                          .thread = thread,
                                          .stack = stack};
        tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    }
    struct gsp_buf bytes = {0};
    fix_write(p, "speedscope", NULL, &bytes);
    yyjson_doc *doc = check_structure(&bytes);
    yyjson_val *weights = at(doc, "/profiles/0/weights");
    tap_require(yyjson_arr_size(weights) == GSP_COUNT(spans_ms));
    for (size_t i = 0; i < GSP_COUNT(spans_ms); i++)
        tap_eq_int(yyjson_get_int(yyjson_arr_get(weights, i)), spans_ms[i] * GSP_NS_PER_MS);
    yyjson_doc_free(doc);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_TEST(the_view_merges_lines)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    struct gsp_view_options view = {.no_lines = true};
    fix_write(p, "speedscope", &view, &bytes);
    yyjson_doc *doc = check_structure(&bytes);
    /* Two of the seven frames are lines of one function. */
    tap_eq_int(yyjson_arr_size(at(doc, "/shared/frames")), 6);
    tap_check(yyjson_doc_ptr_get(doc, "/shared/frames/0/line") == NULL);
    yyjson_doc_free(doc);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

/* Compares thread ids, names and lines, because the ids of the two profiles differ. */
static const struct gsp_total *
find_total(const struct gsp_profile *p, const struct gsp_total *other, const struct gsp_profile *of)
{
    for (size_t i = 0; i < gsp_model_profile_total_count(p); i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(p, i);
        uint32_t x = total->stack;
        uint32_t y = other->stack;
        bool same = gsp_model_profile_thread_at(p, total->thread)->os_id ==
                    gsp_model_profile_thread_at(of, other->thread)->os_id;
        while (same && x != GSP_NONE && y != GSP_NONE) {
            const struct gsp_frame *f =
                gsp_model_profile_frame_at(p, gsp_model_profile_stack_frame(p, x));
            const struct gsp_frame *g =
                gsp_model_profile_frame_at(of, gsp_model_profile_stack_frame(of, y));
            same = fix_same_string(p, f->name, of, g->name) &&
                   fix_same_string(p, f->file, of, g->file) && f->line == g->line;
            x = gsp_model_profile_stack_caller(p, x);
            y = gsp_model_profile_stack_caller(of, y);
        }
        if (same && x == y)
            return total;
    }
    return NULL;
}

static void check_same_totals(const struct gsp_profile *p, const struct gsp_profile *q)
{
    for (size_t i = 0; i < gsp_model_profile_total_count(p); i++) {
        const struct gsp_total *expected = gsp_model_profile_total_at(p, i);
        const struct gsp_total *got = find_total(q, expected, p);
        if (expected->stack == GSP_NONE)
            continue; /* becomes a gap */
        tap_require(got != NULL);
        tap_eq_int(got->count, expected->count);
        tap_eq_int(got->weight, expected->weight);
    }
}

TAP_TEST(round_trip)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "speedscope", NULL, &bytes);
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(gsp_buf_sv(&bytes), "speedscope", &q, &err), GSP_OK);
    tap_eq_str(err.msg, "");
    check_same_totals(p, q);
    tap_check(fix_same_string(p, gsp_model_profile_thread_at(p, 1)->name, q,
                              gsp_model_profile_thread_at(q, 1)->name));
    tap_eq_int(gsp_model_profile_process_at(q, gsp_model_profile_thread_at(q, 2)->process)->pid,
               101);
    /* A second round trip changes nothing. */
    struct gsp_buf again = {0};
    gsp_model_profile_meta(q)->period_ns = gsp_model_profile_meta(p)->period_ns;
    fix_write(q, "speedscope", NULL, &again);
    struct gsp_profile *r = NULL;
    tap_require(fix_read(gsp_buf_sv(&again), "speedscope", &r, &err) == GSP_OK);
    fix_check_same(
        q, (gsp_model_profile_meta(r)->period_ns = gsp_model_profile_meta(q)->period_ns, r));
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_model_profile_free(r);
    gsp_buf_free(&bytes);
    gsp_buf_free(&again);
}

TAP_TEST(round_trip_of_counts)
{
    struct gsp_profile *p = NULL;
    tap_require(fix_read(gsp_sv_of("a;b 3\na;c 4\na 5\n"), "folded", &p, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    fix_write(p, "speedscope", NULL, &bytes);
    yyjson_doc_free(check_structure(&bytes));
    struct gsp_profile *q = NULL;
    tap_require(fix_read(gsp_buf_sv(&bytes), "speedscope", &q, NULL) == GSP_OK);
    check_same_totals(p, q);
    tap_eq_int(gsp_model_profile_meta(q)->unit, GSP_UNIT_COUNT);
    tap_eq_int(gsp_model_profile_sample_count(q), 12);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

#define SHARED "{\"shared\": {\"frames\": [{\"name\": \"a\"}, {\"name\": \"b\", \"line\": 3}]}, "

TAP_TEST(events_become_samples)
{
    static const char text[] = SHARED
        "\"profiles\": [{\"type\": \"evented\", \"name\": \"x\", \"unit\": \"milliseconds\", "
        "\"startValue\": 100, \"endValue\": 120, \"events\": ["
        "{\"type\": \"O\", \"frame\": 0, \"at\": 102}, {\"type\": \"O\", \"frame\": 1, \"at\": 103},"
        "{\"type\": \"C\", \"frame\": 1, \"at\": 107.5}, {\"type\": \"C\", \"frame\": 0, \"at\": "
        "110}, {\"type\": \"O\", \"frame\": 1, \"at\": 115}]}]}";
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(gsp_sv_of(text), "speedscope", &q, &err), GSP_OK);
    tap_eq_str(err.msg, "");
    const int64_t expected[][3] = {{3000000, 1000000, 1},
                                   {7500000, 4500000, 2},
                                   {10000000, 2500000, 1},
                                   {20000000, 5000000, 1}}; /* end, weight, depth */
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, q);
    for (size_t i = 0; i < GSP_COUNT(expected); i++) {
        tap_require(gsp_model_sample_iter_next(&iter, &sample));
        tap_eq_int(sample.time_ns, expected[i][0]);
        tap_eq_int(sample.weight, expected[i][1]);
        tap_eq_int(gsp_model_profile_stack_depth(q, sample.stack), expected[i][2]);
    }
    tap_check(!gsp_model_sample_iter_next(&iter, &sample));
    gsp_model_profile_free(q);
}

static void check_rejected(const char *profile, const char *message)
{
    gsp_auto_buf text = {0};
    gsp_buf_printf(&text, SHARED "\"profiles\": [%s]}", profile);
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(gsp_buf_sv(&text), "speedscope", &q, &err), GSP_E_FORMAT);
    tap_eq_str(err.msg, message);
}

TAP_TEST(malformed_profiles_are_rejected)
{
    check_rejected("7", "profile 0: unknown unit");
    check_rejected("{\"unit\": \"none\"}", "profile 0: the type is neither sampled nor evented");
    check_rejected(
        "{\"unit\": \"none\", \"type\": \"sampled\", \"samples\": [[]], \"weights\": []}",
        "profile 0: samples and weights are not two lists of the same length");
    check_rejected(
        "{\"unit\": \"none\", \"type\": \"sampled\", \"samples\": [[2]], \"weights\": [1]}",
        "profile 0: a frame is not in the list");
    check_rejected(
        "{\"unit\": \"none\", \"type\": \"sampled\", \"samples\": [3], \"weights\": [1]}",
        "profile 0: a sample is not a list");
    check_rejected(
        "{\"unit\": \"none\", \"type\": \"sampled\", \"samples\": [[0]], \"weights\": [-1]}",
        "profile 0: a value is out of range");
    check_rejected(
        "{\"unit\": \"seconds\", \"type\": \"sampled\", \"samples\": [[0]], \"weights\": [1e30]}",
        "profile 0: a value is out of range");
    check_rejected("{\"unit\": \"none\", \"type\": \"evented\", \"events\": [{\"type\": \"C\", "
                   "\"frame\": 0, \"at\": 1}]}",
                   "profile 0: an event closes a frame that is not on top");
    check_rejected("{\"unit\": \"none\", \"type\": \"evented\", \"events\": [{\"type\": \"O\", "
                   "\"frame\": 0, \"at\": -1}]}",
                   "profile 0: the events are not in time order");
    check_rejected("{\"unit\": \"none\", \"type\": \"evented\", \"events\": []}, {\"unit\": "
                   "\"bytes\", \"type\": \"evented\", \"events\": []}",
                   "profile 1: the unit differs from that of the first profile");
}

TAP_TEST(damaged_input_is_handled_safely)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "speedscope", NULL, &bytes);
    fix_mangle(gsp_buf_sv(&bytes), "speedscope", 3);
    struct gsp_profile *q = NULL;
    tap_eq_int(fix_read((struct gsp_sv){bytes.p, bytes.len / 2}, "speedscope", &q, NULL),
               GSP_E_FORMAT);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_MAIN()
