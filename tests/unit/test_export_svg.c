/* SPDX-License-Identifier: Apache-2.0 */
#include "export/svg.h"
#include "profile_fixture.h"

static size_t count_of(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        n++;
    return n;
}

static const char *draw(const struct gsp_profile *profile, const struct gsp_view_options *view,
                        struct gsp_buf *out)
{
    gsp_buf_clear(out);
    fix_write(profile, "svg", view, out);
    return gsp_buf_cstr(out);
}

/* Copies the drawing without its style and script. */
static void without_cdata(const char *svg, struct gsp_buf *out)
{
    for (const char *cdata = strstr(svg, "<![CDATA["); cdata; cdata = strstr(svg, "<![CDATA[")) {
        gsp_buf_put(out, svg, (size_t)(cdata - svg));
        svg = strstr(cdata, "]]>");
        tap_require(svg != NULL);
        svg += 3;
    }
    gsp_buf_puts(out, svg);
}

/* Checks that every tag is closed, in order. */
static void check_well_formed(const char *xml)
{
    const char *open[64];
    size_t depth = 0;
    for (const char *at = strchr(xml, '<'); at; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        tap_require(end != NULL);
        if (at[1] == '?')
            continue;
        if (at[1] == '/') {
            tap_require(depth > 0);
            size_t len = (size_t)(end - at) - 2;
            tap_require(strncmp(open[--depth], at + 2, len) == 0);
        } else if (end[-1] != '/') {
            tap_require(depth < GSP_COUNT(open));
            open[depth++] = at + 1;
        }
    }
    tap_eq_int(depth, 0);
}

TAP_TEST(golden)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf svg = {0};
    struct gsp_buf bare = {0};
    without_cdata(draw(p, NULL, &svg), &bare);
    check_well_formed(gsp_buf_cstr(&bare));
    fix_check_golden(&bare, "svg/small.svg");
    gsp_buf_free(&bare);
    gsp_buf_free(&svg);
    gsp_model_profile_free(p);
}

TAP_TEST(names_are_escaped)
{
    struct gsp_profile *p = fix_small();
    static const char *const EVIL[] = {
        "<script>alert(1)</script>", "]]>", "\"onclick=\"x", "&amp;", "a\xff\x01z",
        "--><svg onload=x>"};
    uint32_t stack = GSP_NONE;
    for (size_t i = 0; i < GSP_COUNT(EVIL); i++)
        stack = fix_stack(p, stack, fix_frame(p, EVIL[i], EVIL[i], 1));
    fix_add(p, 0, stack, 90000, 0);
    struct gsp_process process = *gsp_model_profile_process_at(p, 0);
    process.cmdline = fix_string(p, "python3 ]]><script>alert(2)</script>");
    gsp_model_profile_set_process(p, 0, &process);

    struct gsp_buf svg = {0};
    struct gsp_buf bare = {0};
    struct gsp_view_options view = {.threads = true, .full_filenames = true};
    const char *text = draw(p, &view, &svg);
    without_cdata(text, &bare);
    check_well_formed(gsp_buf_cstr(&bare));
    tap_eq_int(count_of(text, "<script"), 1);
    tap_eq_int(count_of(text, "]]>"), 2);
    tap_eq_int(count_of(text, "<svg onload"), 0);
    tap_check(count_of(text, "&lt;script&gt;alert(1)&lt;/script&gt; (&lt;script&gt;") > 0);
    tap_check(count_of(text, "&quot;onclick=&quot;x") > 0);
    tap_check(count_of(text, "&amp;amp;") > 0);
    tap_check(count_of(text, "a\xef\xbf\xbd\xef\xbf\xbdz") > 0);
    gsp_buf_free(&bare);
    gsp_buf_free(&svg);
    gsp_model_profile_free(p);
}

TAP_TEST(nothing_is_loaded_from_elsewhere)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf svg = {0};
    const char *text = draw(p, NULL, &svg);
    /* The only addresses are the names of two XML namespaces. */
    tap_eq_int(count_of(text, "http"), count_of(text, "http://www.w3.org/"));
    tap_eq_int(count_of(text, "href"), 0);
    tap_eq_int(count_of(text, "url("), 0);
    tap_eq_int(count_of(text, "@import"), 0);
    tap_eq_int(count_of(text, "innerHTML"), 0);
    gsp_buf_free(&svg);
    gsp_model_profile_free(p);
}

TAP_TEST(narrow_frames_are_omitted_and_counted)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    uint32_t wide = fix_stack(p, GSP_NONE, fix_frame(p, "wide", "x.py", 1));
    uint32_t thin = fix_stack(p, GSP_NONE, fix_frame(p, "thin", "x.py", 2));
    uint32_t below = fix_stack(p, thin, fix_frame(p, "below", "x.py", 3));
    struct gsp_sample sample = {.weight = 100000, .thread = thread, .stack = wide};
    tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    sample.weight = 1;
    sample.stack = below;
    tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    struct gsp_buf svg = {0};
    const char *text = draw(p, NULL, &svg);
    tap_check(strstr(text, "2 frames too narrow to draw") != NULL);
    tap_check(strstr(text, "thin (x.py:2)") == NULL);
    tap_eq_int(count_of(text, "<svg class=\"f "), 2);
    gsp_buf_free(&svg);
    gsp_model_profile_free(p);
}

TAP_TEST(the_head_describes_the_recording)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf svg = {0};
    const char *text = draw(p, NULL, &svg);
    tap_check(strstr(text, ">python3 app.py --fast and 1 more process</text>") != NULL);
    tap_check(strstr(text,
                     ">10 samples in 100 ms at 100 Hz \xc2\xb7 losses: 1 stack torn, 2 ticks "
                     "late, 3 reads failed, 4 processes ended early, 5 processes not Python<"));
    tap_check(strstr(text, "load (features.py:12)\n3 samples, 30.0 ms, 30.0 % of all, "
                           "60.0 % of parent</title>") != NULL);
    gsp_buf_free(&svg);
    gsp_model_profile_free(p);
}

TAP_TEST(an_empty_profile_can_be_drawn)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    struct gsp_buf svg = {0};
    const char *text = draw(p, NULL, &svg);
    tap_eq_int(count_of(text, "<svg class=\"f "), 1);
    tap_check(strstr(text, "nan") == NULL);
    tap_check(strstr(text, "all\n0 samples, 0 ns, 0.00 % of all</title>") != NULL);
    gsp_buf_free(&svg);
    gsp_model_profile_free(p);
}

/* a calls b and c. The first recording lacks c, the second lacks b; both have a. */
static struct gsp_profile *make_side(int64_t a, int64_t b, int64_t c)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    uint32_t root = fix_stack(p, GSP_NONE, fix_frame(p, "a", "x.py", 1));
    const uint32_t stacks[] = {root, fix_stack(p, root, fix_frame(p, "b", "x.py", 2)),
                               fix_stack(p, root, fix_frame(p, "c", "x.py", 3))};
    const int64_t weights[] = {a, b, c};
    for (size_t i = 0; i < GSP_COUNT(stacks); i++) {
        struct gsp_total total = {
            .thread = thread, .stack = stacks[i], .count = 1, .weight = weights[i]};
        if (weights[i] > 0)
            tap_require(gsp_model_profile_add_total(p, &total, NULL) == GSP_OK);
    }
    return p;
}

TAP_TEST(a_diff_shows_the_value_of_each_recording)
{
    struct gsp_profile *first = make_side(2000000, 1000000, 0);
    struct gsp_profile *second = make_side(1000000, 0, 4000000);
    struct gsp_profile *sum = make_side(3000000, 1000000, 4000000);
    const struct gsp_svg_diff diff = {.name = {gsp_sv_of("base"), gsp_sv_of("new")},
                                      .profile = {first, second},
                                      .sum = sum,
                                      .per = ""};
    struct gsp_out out;
    gsp_out_init(&out, -1);
    tap_require(gsp_export_svg_write_diff(&diff, &out, NULL) == GSP_OK);
    const char *text = gsp_buf_cstr(&out.buf);
    tap_check(strstr(text, "a (x.py:1) +\nbase 3.00 ms, new 5.00 ms, +66.7 %<") != NULL);
    tap_check(strstr(text, "b (x.py:2) \xe2\x88\x92\nbase 1.00 ms, new 0 ns, -100.0 %<") != NULL);
    tap_check(strstr(text, "c (x.py:3) +\nbase 0 ns, new 4.00 ms, new<") != NULL);
    gsp_buf_free(&out.buf);
    gsp_model_profile_free(first);
    gsp_model_profile_free(second);
    gsp_model_profile_free(sum);
}

TAP_MAIN()
