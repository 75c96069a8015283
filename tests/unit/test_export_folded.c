/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_fixture.h"

static struct gsp_profile *read_text(const char *text)
{
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    int rc = fix_read(gsp_sv_of(text), "folded", &q, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return q;
}

TAP_TEST(golden)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "folded", NULL, &bytes);
    fix_check_golden(&bytes, "folded/small.folded");
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

/* Reading and writing must give the same text. */
static void check_round_trip(const char *text)
{
    struct gsp_profile *q = read_text(text);
    struct gsp_view_options view = {.full_filenames = true};
    struct gsp_buf bytes = {0};
    fix_write(q, "folded", &view, &bytes);
    tap_eq_str(gsp_buf_cstr(&bytes), text);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(round_trip)
{
    check_round_trip("a 1\na;b 2\n");
    check_round_trip("<module> (/srv/app.py:40) 3\n"
                     "<module> (/srv/app.py:40);f (/srv/lib (old)/m.py:7) 18446744073\n");
    /* A percent sign is escaped only if it begins an escape sequence. */
    check_round_trip("100%;a%3Bb%0A%253B (x.py:1) 5\n");

    struct gsp_profile *p = fix_small();
    struct gsp_view_options view = {.full_filenames = true, .threads = true};
    struct gsp_buf bytes = {0};
    fix_write(p, "folded", &view, &bytes);
    check_round_trip(gsp_buf_cstr(&bytes));
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_TEST(labels_are_split_into_name_file_and_line)
{
    struct gsp_profile *q = read_text("a;f (g.py:12);call(x) (eval);h (<frozen os>:3);i (j/k) 2\n");
    const struct {
        const char *name;
        const char *file;
        uint32_t line;
    } expected[] = {{"a", "", 0},
                    {"f", "g.py", 12},
                    {"call(x) (eval)", "", 0},
                    {"h", "<frozen os>", 3},
                    {"i", "j/k", 0}};
    tap_require(gsp_model_profile_frame_count(q) == GSP_COUNT(expected));
    for (uint32_t i = 0; i < GSP_COUNT(expected); i++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(q, i + 1);
        tap_check(
            gsp_sv_eq(gsp_model_profile_string_at(q, frame->name), gsp_sv_of(expected[i].name)));
        tap_check(
            gsp_sv_eq(gsp_model_profile_string_at(q, frame->file), gsp_sv_of(expected[i].file)));
        tap_eq_int(frame->line, expected[i].line);
    }
    tap_eq_int(gsp_model_profile_meta(q)->unit, GSP_UNIT_COUNT);
    gsp_model_profile_free(q);
}

TAP_TEST(comments_blank_lines_and_crlf_are_accepted)
{
    struct gsp_profile *q = read_text("# mode: wall\n\na;b 2\r\n  \na;b 3");
    tap_eq_int(gsp_model_profile_total_count(q), 1);
    tap_eq_int(gsp_model_profile_total_at(q, 0)->count, 5);
    tap_eq_int(gsp_model_profile_total_at(q, 0)->weight, 5);
    gsp_model_profile_free(q);
    q = read_text("");
    tap_eq_int(gsp_model_profile_total_count(q), 0);
    gsp_model_profile_free(q);
}

static void check_rejected(const char *text, const char *message)
{
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(gsp_sv_of(text), "folded", &q, &err), GSP_E_FORMAT);
    tap_eq_str(err.msg, message);
}

TAP_TEST(malformed_text_is_rejected_with_its_line_number)
{
    check_rejected("a 1\nhello\n",
                   "line 2: the number of samples at the end is missing or too large");
    check_rejected("a 99999999999999999999\n",
                   "line 1: the number of samples at the end is missing or too large");
    check_rejected("12\n", "line 1: no stack before the number of samples");
    check_rejected(" 12\n", "line 1: no stack before the number of samples");
    check_rejected("a12\n", "line 1: no stack before the number of samples");
}

TAP_TEST(a_stack_that_is_too_deep_is_rejected)
{
    struct gsp_buf text = {0};
    for (int i = 0; i < 100000; i++)
        gsp_buf_puts(&text, "f;");
    gsp_buf_puts(&text, "f 1\n");
    struct gsp_profile *q = NULL;
    tap_eq_int(fix_read(gsp_buf_sv(&text), "folded", &q, NULL), GSP_E_LIMIT);
    gsp_buf_free(&text);
}

TAP_TEST(damaged_input_is_handled_safely)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "folded", NULL, &bytes);
    fix_mangle(gsp_buf_sv(&bytes), "folded", 1);
    tap_check(bytes.len > 100);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_MAIN()
