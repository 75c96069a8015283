/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "model/format.h"
#include "model/tree.h"
#include "profile_fixture.h"

static struct gsp_tree *tree_of(const struct gsp_profile *profile,
                                const struct gsp_view_options *view)
{
    struct gsp_tree *tree = NULL;
    tap_require(gsp_model_tree_new(profile, view, &tree, NULL) == GSP_OK);
    return tree;
}

/* The tree as text: "label count/total;" per node in preorder, indented by depth. */
static void describe(const struct gsp_tree *tree, uint32_t i, struct gsp_buf *out)
{
    const struct gsp_node *node = gsp_model_tree_at(tree, i);
    for (uint32_t d = 0; d < node->depth; d++)
        gsp_buf_putc(out, ' ');
    gsp_buf_putsv(out, gsp_model_tree_label(tree, node->label));
    gsp_buf_printf(out, " %d/%d\n", (int)node->self_count, (int)node->total_count);
    for (uint32_t c = node->first_child; c != 0; c = gsp_model_tree_at(tree, c)->next_sibling)
        describe(tree, c, out);
}

static void check_tree(const struct gsp_profile *profile, const struct gsp_view_options *view,
                       const char *expected)
{
    struct gsp_tree *tree = tree_of(profile, view);
    gsp_auto_buf text = {0};
    describe(tree, 0, &text);
    tap_eq_str(gsp_buf_cstr(&text), expected);
    gsp_model_tree_free(tree);
}

/* One process, one thread; the caller adds samples. */
static struct gsp_profile *plain(uint32_t *thread)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    *thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    return p;
}

TAP_TEST(several_processes_are_at_the_top)
{
    struct gsp_profile *p = fix_small();
    struct gsp_view_options view = {.no_lines = true};
    check_tree(p, &view,
               "all 0/10\n"
               " process 100: python3 1/8\n"
               "  <module> (app.py) 0/5\n"
               "   main (app.py) 1/5\n"
               "    a;b\n<&\"\xc3\xa9%3B (pkg/__init__.py) 1/1\n"
               "    load (features.py) 2/3\n"
               "     load (features.py) 1/1\n"
               "  Thread._bootstrap (threading.py) 0/2\n"
               "   sgemm (libblas.so.3) 2/2\n"
               " process 101: python3 worker 0/2\n"
               "  <module> (app.py) 1/2\n"
               "   main (app.py) 1/1\n");
    gsp_model_profile_free(p);
}

TAP_TEST(threads_are_above_their_stacks)
{
    struct gsp_profile *p = fix_small();
    struct gsp_view_options view = {.no_lines = true, .threads = true};
    struct gsp_tree *tree = tree_of(p, &view);
    gsp_auto_buf text = {0};
    describe(tree, 0, &text);
    const char *all = gsp_buf_cstr(&text);
    tap_check(strstr(all, "\n  thread MainThread (100) 0/5\n   <module> (app.py) 0/5\n"));
    tap_check(strstr(all, "\n  thread loader \"1\";<x> (105) 1/3\n"));
    tap_check(strstr(all, "\n  thread MainThread (101) 0/2\n"));
    gsp_model_tree_free(tree);
    gsp_model_profile_free(p);
}

TAP_TEST(lines_of_a_function_merge_on_request)
{
    uint32_t thread = 0;
    struct gsp_profile *p = plain(&thread);
    struct gsp_frame frame = {
        .name = fix_string(p, "f"), .file = fix_string(p, "/a/x.py"), .first_line = 10};
    for (uint32_t line = 11; line < 14; line++) {
        uint32_t id = GSP_NONE;
        frame.line = line;
        tap_require(gsp_model_profile_frame(p, &frame, &id, NULL) == GSP_OK);
        fix_add(p, thread, fix_stack(p, GSP_NONE, id), line, 0);
    }
    check_tree(p, &(struct gsp_view_options){0},
               "all 0/3\n f (x.py:11) 1/1\n f (x.py:12) 1/1\n f (x.py:13) 1/1\n");
    check_tree(p, &(struct gsp_view_options){.by_function = true}, "all 0/3\n f (x.py:10) 3/3\n");
    check_tree(p, &(struct gsp_view_options){.no_lines = true}, "all 0/3\n f (x.py) 3/3\n");
    check_tree(p, &(struct gsp_view_options){.by_function = true, .full_filenames = true},
               "all 0/3\n f (/a/x.py:10) 3/3\n");
    check_tree(p, NULL, "all 0/3\n f (x.py:11) 1/1\n f (x.py:12) 1/1\n f (x.py:13) 1/1\n");
    gsp_model_profile_free(p);
}

TAP_TEST(stacks_without_samples_are_omitted)
{
    uint32_t thread = 0;
    struct gsp_profile *p = plain(&thread);
    uint32_t root = fix_stack(p, GSP_NONE, fix_frame(p, "main", "x.py", 1));
    fix_stack(p, root, fix_frame(p, "never", "x.py", 2));
    fix_add(p, thread, root, 1, 0);
    check_tree(p, NULL, "all 0/1\n main (x.py:1) 1/1\n");
    gsp_model_profile_free(p);
}

TAP_TEST(counts_of_imported_profiles_are_their_weights)
{
    uint32_t thread = 0;
    struct gsp_profile *p = plain(&thread);
    gsp_model_profile_meta(p)->unit = GSP_UNIT_COUNT;
    struct gsp_sample sample = {.weight = 100, .thread = thread};
    sample.stack = fix_stack(p, GSP_NONE, fix_frame(p, "main", "", 0));
    tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    check_tree(p, NULL, "all 0/100\n main 100/100\n");
    tap_eq_int(gsp_model_profile_samples(p), 100);
    gsp_model_profile_free(p);
}

TAP_TEST(sums_do_not_wrap)
{
    tap_eq_int(gsp_sum_i64(INT64_MAX, 1), INT64_MAX);
    tap_eq_int(gsp_sum_i64(INT64_MIN, -1), INT64_MIN);
    tap_eq_int(gsp_sum_i64(INT64_MAX, -1), INT64_MAX - 1);
    tap_check(gsp_sum_u64(UINT64_MAX, 2) == UINT64_MAX);
    tap_check(gsp_sum_u64(1, 2) == 3);
    uint32_t thread = 0;
    struct gsp_profile *p = plain(&thread);
    for (uint32_t line = 1; line < 4; line++) {
        struct gsp_sample sample = {.weight = INT64_MAX, .thread = thread};
        sample.stack = fix_stack(p, GSP_NONE, fix_frame(p, "f", "x.py", line));
        tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    }
    struct gsp_tree *tree = tree_of(p, NULL);
    tap_eq_int(gsp_model_tree_at(tree, 0)->total_weight, INT64_MAX);
    gsp_model_tree_free(tree);
    gsp_model_profile_free(p);
}

TAP_TEST(an_empty_profile_has_a_root)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    check_tree(p, NULL, "all 0/0\n");
    gsp_model_profile_free(p);
}

TAP_TEST(files_are_shown_relative_to_their_import_root)
{
    static const struct {
        const char *path;
        const char *shown;
    } CASES[] = {
        {"/home/u/train.py", "train.py"},
        {"train.py", "train.py"},
        {"/home/u/app/pkg/__init__.py", "pkg/__init__.py"},
        {"__init__.py", "__init__.py"},
        {"/__init__.py", "__init__.py"},
        {"/usr/lib/python3/dist-packages/torch/nn/modules/module.py", "torch/nn/modules/module.py"},
        {"/v/lib/python3.11/site-packages/a/site-packages/b/c.py", "b/c.py"},
        {"/usr/lib/python3.11/json/decoder.py", "json/decoder.py"},
        {"/usr/lib/python3.11/lib-dynload/_json.so", "_json.so"},
        {"/opt/lib/pythonic/thing.py", "thing.py"},
        {"/usr/lib/python3.11/", "/usr/lib/python3.11/"},
        {"<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"},
        {"/", "/"},
        {"", ""},
    };
    struct gsp_view_options view = {0};
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        struct gsp_sv shown = gsp_model_frame_file(&view, gsp_sv_of(CASES[i].path));
        char text[128];
        snprintf(text, sizeof(text), "%.*s", (int)shown.len, shown.p);
        tap_eq_str(text, CASES[i].shown);
        /* A profile that is read from a file with such names shows the same ones. */
        struct gsp_sv again = gsp_model_frame_file(&view, gsp_sv_of(text));
        tap_eq_int((long long)again.len, (long long)strlen(text));
    }
    view.full_filenames = true;
    tap_eq_int(gsp_model_frame_file(&view, gsp_sv_of("/a/b.py")).len, 7);
}

/* A million different stacks, forty thousand frames: an hour of a busy program. */
TAP_TEST(a_million_stacks_take_less_than_a_second)
{
    uint32_t thread = 0;
    struct gsp_profile *p = plain(&thread);
    uint32_t frames[4000];
    char name[32];
    for (uint32_t i = 0; i < GSP_COUNT(frames); i++) {
        snprintf(name, sizeof(name), "function_%u", i);
        frames[i] = fix_frame(p, name, "/srv/app.py", i);
    }
    uint32_t state = 1;
    while (gsp_model_profile_total_count(p) < 1000000) {
        uint32_t stack = GSP_NONE;
        for (int depth = 0; depth < 30 && gsp_model_profile_total_count(p) < 1000000; depth++) {
            state = state * 1664525U + 1013904223U;
            stack = fix_stack(p, stack, frames[(state >> 8) % GSP_COUNT(frames)]);
            fix_add(p, thread, stack, 0, 0);
        }
    }
    /* The best of three, because the machine may be busy. */
    struct gsp_tree *tree = NULL;
    int64_t took_ns = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        gsp_model_tree_free(tree);
        int64_t start = gsp_cputime_ns();
        tree = tree_of(p, NULL);
        int64_t this_ns = gsp_cputime_ns() - start;
        took_ns = this_ns < took_ns ? this_ns : took_ns;
    }
    tap_check(gsp_model_tree_count(tree) > 900000);
    tap_eq_int(gsp_model_tree_at(tree, 0)->total_count, gsp_model_profile_sample_count(p));
    printf("# %.0f ms\n", (double)took_ns / 1e6);
#if !defined(__SANITIZE_ADDRESS__) && defined(__OPTIMIZE__)
    tap_check(took_ns < GSP_NS_PER_S);
#endif
    gsp_model_tree_free(tree);
    gsp_model_profile_free(p);
}

static void check_words(struct gsp_buf *buf, const char *expected)
{
    tap_eq_str(gsp_buf_cstr(buf), expected);
    gsp_buf_clear(buf);
}

TAP_TEST(numbers_have_three_figures)
{
    gsp_auto_buf b = {0};
    gsp_model_count_put(0, &b);
    check_words(&b, "0");
    gsp_model_count_put(1234567, &b);
    check_words(&b, "1,234,567");
    gsp_model_count_put(999, &b);
    check_words(&b, "999");
    static const struct {
        double pct;
        const char *text;
    } PCTS[] = {{0, "0.00"},     {0.001, "<0.01"}, {0.123, "0.12"}, {1.234, "1.23"},
                {9.999, "10.0"}, {12.34, "12.3"},  {99.96, "100"},  {100, "100"}};
    for (size_t i = 0; i < GSP_COUNT(PCTS); i++) {
        gsp_model_percent_put(PCTS[i].pct, &b);
        check_words(&b, PCTS[i].text);
    }
    gsp_model_amount_put(GSP_UNIT_NS, 1500000000, &b);
    check_words(&b, "1.50 s");
    gsp_model_amount_put(GSP_UNIT_COUNT, 1, &b);
    check_words(&b, "1 sample");
    gsp_model_amount_put(GSP_UNIT_BYTES, 3355443, &b);
    check_words(&b, "3.20 MiB");
    gsp_model_amount_put(GSP_UNIT_BYTES, 1000, &b);
    check_words(&b, "0.98 KiB");
    gsp_model_losses_put(&(struct gsp_losses){0}, &b);
    check_words(&b, "none");
    gsp_model_losses_put(&(struct gsp_losses){1, 2, 0, 1, 1000, 0}, &b);
    check_words(&b,
                "1 stack torn, 2 ticks late, 1 process ended early, 1,000 processes not Python");
}

TAP_TEST(a_profile_is_described)
{
    gsp_auto_buf b = {0};
    struct gsp_profile *p = fix_small();
    gsp_model_command_put(p, &b);
    check_words(&b, "python3 app.py --fast and 1 more process");
    gsp_model_extent_put(p, &b);
    check_words(&b, "10 samples in 100 ms at 100 Hz");
    gsp_model_profile_meta(p)->period_ns = 100000;
    gsp_model_extent_put(p, &b);
    check_words(&b, "10 samples in 100 ms at 10,000 Hz");
    gsp_model_profile_meta(p)->period_ns = 400 * GSP_NS_PER_MS;
    gsp_model_profile_meta(p)->duration_ns = 0;
    gsp_model_extent_put(p, &b);
    check_words(&b, "10 samples at 2.5 Hz");
    gsp_model_profile_free(p);
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    gsp_model_command_put(p, &b);
    check_words(&b, "unknown program");
    gsp_model_profile_free(p);
}

TAP_MAIN()
