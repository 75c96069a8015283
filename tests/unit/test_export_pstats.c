/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "export/marshal.h"
#include "model/tree.h"
#include "profile_fixture.h"

/* Returns the five values of a function; fails the test if it does not exist. */
static uint32_t entry(const struct gsp_marshal *doc, const char *name)
{
    uint32_t root = gsp_export__marshal_root(doc);
    const struct gsp_marshal_value *dict = gsp_export__marshal_at(doc, root);
    for (uint32_t i = 0; i + 1 < dict->count; i += 2) {
        uint32_t key = gsp_export__marshal_item(doc, root, i);
        const struct gsp_marshal_value *text =
            gsp_export__marshal_at(doc, gsp_export__marshal_item(doc, key, 2));
        if (gsp_sv_eq(text->text, gsp_sv_of(name)))
            return gsp_export__marshal_item(doc, root, i + 1);
    }
    printf("# no function %s\n", name);
    exit(TAP_EXIT_FAILED);
}

static int64_t integer(const struct gsp_marshal *doc, uint32_t tuple, uint32_t i)
{
    const struct gsp_marshal_value *v =
        gsp_export__marshal_at(doc, gsp_export__marshal_item(doc, tuple, i));
    tap_require(v && v->type == GSP_MARSHAL_INT);
    return v->integer;
}

static double real(const struct gsp_marshal *doc, uint32_t tuple, uint32_t i)
{
    const struct gsp_marshal_value *v =
        gsp_export__marshal_at(doc, gsp_export__marshal_item(doc, tuple, i));
    tap_require(v && v->type == GSP_MARSHAL_FLOAT);
    return v->real;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void check_values(const struct gsp_marshal *doc, uint32_t tuple, const int64_t *counts,
                         const double *seconds)
{
    tap_eq_int(integer(doc, tuple, 0), counts[0]);
    tap_eq_int(integer(doc, tuple, 1), counts[1]);
    tap_check(near(real(doc, tuple, 2), seconds[0]));
    tap_check(near(real(doc, tuple, 3), seconds[1]));
}

TAP_TEST(golden)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "pstats", NULL, &bytes);
    fix_check_golden(&bytes, "pstats/small.prof");
    tap_check(gsp_export_format_find("pstats")->sniff(gsp_buf_sv(&bytes)));
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

/* main has 6 of 10 samples (2 of its own); load has 3, one of them with two occurrences. */
TAP_TEST(values_are_samples_and_recursion_counts_once)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    struct gsp_marshal *doc = NULL;
    fix_write(p, "pstats", NULL, &bytes);
    tap_require(gsp_export__marshal_read(gsp_buf_sv(&bytes), &doc, NULL) == GSP_OK);
    check_values(doc, entry(doc, "main"), (int64_t[]){6, 6}, (double[]){0.02, 0.06});
    check_values(doc, entry(doc, "<module>"), (int64_t[]){7, 7}, (double[]){0.01, 0.07});
    /* Two functions have this name (first lines 8 and 10); the first calls the second. */
    check_values(doc, entry(doc, "load"), (int64_t[]){3, 3}, (double[]){0.02, 0.03});
    uint32_t callers = gsp_export__marshal_item(doc, entry(doc, "main"), 4);
    tap_eq_int(gsp_export__marshal_at(doc, callers)->count, 2);
    check_values(doc, gsp_export__marshal_item(doc, callers, 1), (int64_t[]){6, 6},
                 (double[]){0.02, 0.06});
    gsp_export__marshal_free(doc);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

TAP_TEST(a_recursive_function_has_more_calls_than_primitive_calls)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    uint32_t f = fix_frame(p, "f", "x.py", 3);
    uint32_t g = fix_frame(p, "g", "x.py", 9);
    uint32_t one = fix_stack(p, GSP_NONE, f);
    uint32_t two = fix_stack(p, fix_stack(p, one, g), f);
    uint32_t three = fix_stack(p, two, f);
    fix_add(p, thread, one, 0, 0);
    fix_add(p, thread, three, 1, 0);
    struct gsp_buf bytes = {0};
    struct gsp_marshal *doc = NULL;
    fix_write(p, "pstats", NULL, &bytes);
    tap_require(gsp_export__marshal_read(gsp_buf_sv(&bytes), &doc, NULL) == GSP_OK);
    check_values(doc, entry(doc, "f"), (int64_t[]){2, 4}, (double[]){0.02, 0.02});
    check_values(doc, entry(doc, "g"), (int64_t[]){1, 1}, (double[]){0, 0.01});
    gsp_export__marshal_free(doc);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

TAP_TEST(round_trip_keeps_times)
{
    struct gsp_profile *p = fix_small();
    struct gsp_profile *q = NULL;
    struct gsp_buf bytes = {0};
    struct gsp_err err = {0};
    fix_write(p, "pstats", NULL, &bytes);
    tap_require(fix_read(gsp_buf_sv(&bytes), "pstats", &q, &err) == GSP_OK);
    int64_t sum = 0;
    for (size_t i = 0; i < gsp_model_profile_total_count(q); i++)
        sum += gsp_model_profile_total_at(q, i)->weight;
    tap_eq_int(sum, 90000000); /* nine of ten samples have a stack */
    tap_eq_int(gsp_model_profile_meta_get(q)->duration_ns, 90000000);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

static struct gsp_profile *read_data(const char *name)
{
    char path[512];
    struct gsp_profile *p = NULL;
    struct gsp_err err = {0};
    snprintf(path, sizeof(path), "%s/%s", GSP_TEST_DATA, name);
    int rc = gsp_export_format_load(path, NULL, false, &p, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return p;
}

/* Whether the tree of a file of Python's profilers has this pair of caller and callee. */
static bool has_pair(const struct gsp_tree *tree, const char *caller, const char *callee)
{
    for (uint32_t i = 1; i < gsp_model_tree_count(tree); i++) {
        const struct gsp_node *node = gsp_model_tree_at(tree, i);
        const struct gsp_node *parent = gsp_model_tree_at(tree, node->parent);
        if (node->depth == 2 && gsp_sv_starts(gsp_model_tree_label(tree, node->label), callee) &&
            gsp_sv_starts(gsp_model_tree_label(tree, parent->label), caller))
            return true;
    }
    return false;
}

static void check_standard(const char *name)
{
    struct gsp_profile *p = read_data(name);
    struct gsp_tree *tree = NULL;
    tap_require(gsp_model_tree_new(p, NULL, &tree, NULL) == GSP_OK);
    tap_check(has_pair(tree, "caller_one (app.py:5)", "fib (app.py:2)"));
    tap_check(has_pair(tree, "caller_two (app.py:8)", "fib (app.py:2)"));
    tap_check(has_pair(tree, "fib (", "fib ("));
    tap_check(has_pair(tree, "main (", "caller_one ("));
    tap_check(!has_pair(tree, "main (", "fib ("));
    tap_check(gsp_model_tree_at(tree, 0)->total_weight > 0);
    gsp_model_tree_free(tree);
    gsp_model_profile_free(p);
}

TAP_TEST(files_of_cprofile_are_read)
{
    check_standard("cprofile_3.8.prof");
    check_standard("cprofile_3.13.prof");
}

TAP_TEST(files_of_the_older_profile_module_are_read)
{
    check_standard("profile_3.11.prof");
}

TAP_TEST(large_counts_and_odd_names_survive)
{
    gsp_auto_buf bytes = {0};
    gsp_auto_buf scratch = {0};
    gsp_export__marshal_tuple(&bytes, 4);
    gsp_export__marshal_int(&bytes, 123456789012345678ULL);
    gsp_export__marshal_int(&bytes, INT32_MAX);
    gsp_export__marshal_str(&bytes, &scratch, gsp_sv_of("a\xff\n\xc3\xa9"));
    gsp_export__marshal_float(&bytes, -0.125);
    struct gsp_marshal *doc = NULL;
    tap_require(gsp_export__marshal_read(gsp_buf_sv(&bytes), &doc, NULL) == GSP_OK);
    uint32_t root = gsp_export__marshal_root(doc);
    tap_eq_int(integer(doc, root, 0), 123456789012345678LL);
    tap_eq_int(integer(doc, root, 1), INT32_MAX);
    tap_check(near(real(doc, root, 3), -0.125));
    const struct gsp_marshal_value *text =
        gsp_export__marshal_at(doc, gsp_export__marshal_item(doc, root, 2));
    tap_check(gsp_sv_eq(text->text, gsp_sv_of("a\\xff\\x0a\xc3\xa9")));
    tap_check(gsp_export__marshal_at(doc, gsp_export__marshal_item(doc, root, 4)) == NULL);
    gsp_export__marshal_free(doc);
}

static int read_bytes(const char *bytes, size_t len, struct gsp_err *err)
{
    struct gsp_profile *p = NULL;
    int rc = fix_read((struct gsp_sv){bytes, len}, "pstats", &p, err);
    gsp_model_profile_free(p);
    return rc;
}

#define REJECTED(text, code) tap_eq_int(read_bytes(text, sizeof(text) - 1, &err), code)

TAP_TEST(hostile_files_are_rejected)
{
    struct gsp_err err = {0};
    REJECTED("", GSP_E_FORMAT);
    REJECTED("N", GSP_E_FORMAT);
    REJECTED("{", GSP_E_FORMAT);
    REJECTED("{N", GSP_E_FORMAT);
    REJECTED("{NN0", GSP_E_FORMAT);
    REJECTED("c", GSP_E_FORMAT);                 /* a code object */
    REJECTED("(\xff\xff\xff\x7f", GSP_E_FORMAT); /* 2^31 - 1 items */
    REJECTED("u\xff\xff\xff\xff", GSP_E_FORMAT); /* a string of 4 GB */
    REJECTED("l\x00\x00\x00\x80", GSP_E_FORMAT); /* -2^31 digits */
    REJECTED("r\x00\x00\x00\x00", GSP_E_FORMAT); /* an unknown reference */
    REJECTED("{)\x03u\1\0\0\0fi\1\0\0\0u\1\0\0\0fN0", GSP_E_FORMAT);
    REJECTED("((((((((((((((((((((((((((((((", GSP_E_FORMAT);
    /* A dictionary that is its own key. */
    REJECTED("\xfbr\0\0\0\0r\0\0\0\0"
             "0",
             GSP_E_FORMAT);
    tap_eq_int(read_bytes("{0", 2, &err), GSP_OK);
    char deep[1024];
    for (size_t i = 0; i + 2 <= sizeof(deep); i += 2) {
        deep[i] = ')';
        deep[i + 1] = 1;
    }
    tap_eq_int(read_bytes(deep, sizeof(deep), &err), GSP_E_FORMAT);
    tap_check(strstr(err.msg, "nested too deep") != NULL);
}

/* 1000 functions refer to one dictionary of 1000 callers: a million callers. */
TAP_TEST(too_many_callers_for_the_size_of_the_file_are_rejected)
{
    gsp_auto_buf bytes = {0};
    gsp_auto_buf scratch = {0};
    gsp_export__marshal_dict_begin(&bytes);
    for (unsigned i = 0; i < 1000; i++) {
        gsp_export__marshal_tuple(&bytes, 3);
        gsp_export__marshal_str(&bytes, &scratch, gsp_sv_of("x.py"));
        gsp_export__marshal_int(&bytes, i);
        gsp_export__marshal_str(&bytes, &scratch, gsp_sv_of("f"));
        gsp_export__marshal_tuple(&bytes, 5);
        gsp_export__marshal_int(&bytes, 1);
        gsp_export__marshal_int(&bytes, 1);
        gsp_export__marshal_float(&bytes, 1);
        gsp_export__marshal_float(&bytes, 1);
        if (i > 0) {
            gsp_buf_put(&bytes, "r\0\0\0\0", 5);
            continue;
        }
        gsp_buf_putc(&bytes, (char)('{' | 0x80));
        for (unsigned k = 0; k < 1000; k++) {
            gsp_export__marshal_tuple(&bytes, 3);
            gsp_export__marshal_str(&bytes, &scratch, gsp_sv_of("y.py"));
            gsp_export__marshal_int(&bytes, k);
            gsp_export__marshal_str(&bytes, &scratch, gsp_sv_of("g"));
            gsp_export__marshal_int(&bytes, 1);
        }
        gsp_export__marshal_dict_end(&bytes);
    }
    gsp_export__marshal_dict_end(&bytes);
    struct gsp_err err = {0};
    tap_eq_int(read_bytes(bytes.p, bytes.len, &err), GSP_E_LIMIT);
}

TAP_TEST(damaged_input_is_handled_safely)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "pstats", NULL, &bytes);
    fix_mangle(gsp_buf_sv(&bytes), "pstats", 1);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

TAP_MAIN()
