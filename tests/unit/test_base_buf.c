/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "tap.h"

#define SV(literal) ((struct gsp_sv){(literal), sizeof(literal) - 1})

TAP_TEST(grows_and_keeps_its_content)
{
    gsp_auto_buf buf = {0};
    for (int i = 0; i < 100000; i++)
        gsp_buf_putc(&buf, (char)('a' + i % 26));
    tap_eq_int(buf.len, 100000);
    tap_check(!buf.failed);
    for (size_t i = 0; i < buf.len; i++) {
        if (buf.p[i] != (char)('a' + i % 26)) {
            tap_eq_int(buf.p[i], 'a' + i % 26);
            break;
        }
    }
}

TAP_TEST(empty_buffer_is_an_empty_string)
{
    gsp_auto_buf buf = {0};
    tap_eq_str(gsp_buf_cstr(&buf), "");
    tap_eq_int(buf.len, 0);
    gsp_buf_free(NULL);
}

TAP_TEST(impossible_sizes_fail_and_stay_failed)
{
    gsp_auto_buf buf = {0};
    gsp_buf_puts(&buf, "abc");
    tap_check(gsp_buf_reserve(&buf, SIZE_MAX) == NULL);
    tap_check(buf.failed);
    gsp_buf_puts(&buf, "def");
    tap_eq_int(buf.len, 3);
    tap_check(gsp_buf_cstr(&buf) == NULL);
    gsp_buf_clear(&buf);
    tap_check(gsp_buf_reserve(&buf, SIZE_MAX / 2 + 2) == NULL);
    gsp_buf_clear(&buf);
    gsp_buf_puts(&buf, "again");
    tap_eq_str(gsp_buf_cstr(&buf), "again");
}

TAP_TEST(content_can_be_taken)
{
    gsp_auto_buf buf = {0};
    gsp_buf_puts(&buf, "abc");
    gsp_auto_free char *text = gsp_buf_take(&buf);
    tap_eq_str(text, "abc");
    tap_check(buf.p == NULL && buf.len == 0);
    gsp_buf_puts(&buf, "lost");
    tap_check(gsp_buf_reserve(&buf, SIZE_MAX) == NULL);
    tap_check(gsp_buf_take(&buf) == NULL);
    tap_check(buf.p == NULL);
}

TAP_TEST(prints_and_counts)
{
    gsp_auto_buf buf = {0};
    gsp_buf_printf(&buf, "%s=%d;", "x", -5);
    gsp_buf_putu64(&buf, 0);
    gsp_buf_putc(&buf, ' ');
    gsp_buf_putu64(&buf, UINT64_MAX);
    tap_eq_str(gsp_buf_cstr(&buf), "x=-5;0 18446744073709551615");
}

TAP_TEST(varints_round_trip)
{
    static const uint64_t VALUES[] = {0, 1, 127, 128, 300, 1u << 21, UINT32_MAX, UINT64_MAX};
    gsp_auto_buf buf = {0};
    for (size_t i = 0; i < GSP_COUNT(VALUES); i++)
        gsp_buf_varint(&buf, VALUES[i]);
    const unsigned char *p = (const unsigned char *)buf.p;
    struct gsp_cursor cur = {p, p + buf.len};
    for (size_t i = 0; i < GSP_COUNT(VALUES); i++) {
        uint64_t v = 0;
        tap_check(gsp_cursor_varint(&cur, &v));
        tap_check(v == VALUES[i]);
    }
    uint64_t v = 42;
    tap_check(!gsp_cursor_varint(&cur, &v));
    tap_eq_int(v, 42);
}

TAP_TEST(invalid_varints_are_rejected)
{
    static const unsigned char CUT[] = {0x80, 0x80};
    static const unsigned char TOO_BIG[] = {0xff, 0xff, 0xff, 0xff, 0xff,
                                            0xff, 0xff, 0xff, 0xff, 0x02};
    static const unsigned char TOO_LONG[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                             0x80, 0x80, 0x80, 0x80, 0x00};
    uint64_t v;
    struct gsp_cursor cur = {CUT, CUT + sizeof(CUT)};
    tap_check(!gsp_cursor_varint(&cur, &v));
    tap_check(cur.p == CUT);
    cur = (struct gsp_cursor){TOO_BIG, TOO_BIG + sizeof(TOO_BIG)};
    tap_check(!gsp_cursor_varint(&cur, &v));
    cur = (struct gsp_cursor){TOO_LONG, TOO_LONG + sizeof(TOO_LONG)};
    tap_check(!gsp_cursor_varint(&cur, &v));
}

TAP_TEST(cursor_stops_at_the_end)
{
    static const unsigned char BYTES[] = "abc";
    struct gsp_cursor cur = {BYTES, BYTES + 3};
    struct gsp_sv got;
    tap_check(!gsp_cursor_bytes(&cur, 4, &got));
    tap_check(!gsp_cursor_bytes(&cur, SIZE_MAX, &got));
    tap_check(gsp_cursor_bytes(&cur, 2, &got) && gsp_sv_eq(got, SV("ab")));
    tap_check(gsp_cursor_bytes(&cur, 1, &got) && gsp_sv_eq(got, SV("c")));
    tap_check(gsp_cursor_bytes(&cur, 0, &got) && got.len == 0);
}

TAP_TEST(text_of_a_failed_buffer_fails_where_it_is_appended)
{
    gsp_auto_buf failed = {0};
    gsp_buf_puts(&failed, "part");
    tap_check(!gsp_buf_reserve(&failed, SIZE_MAX));
    tap_check(gsp_buf_sv(&failed).len == 0);
    static void (*const APPEND[])(struct gsp_buf *, struct gsp_sv) = {gsp_buf_putsv, gsp_buf_xml,
                                                                      gsp_buf_term};
    for (size_t i = 0; i < GSP_COUNT(APPEND); i++) {
        gsp_auto_buf out = {0};
        APPEND[i](&out, SV(""));
        tap_check(!out.failed);
        APPEND[i](&out, gsp_buf_sv(&failed));
        tap_check(out.failed);
    }
}

TAP_TEST(xml_is_escaped)
{
    gsp_auto_buf buf = {0};
    gsp_buf_xml(&buf, SV("<a href=\"x\">'&\0\x1b\x7f"));
    tap_eq_str(gsp_buf_cstr(&buf), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;"
                                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TAP_TEST(xml_replaces_invalid_utf8)
{
    gsp_auto_buf buf = {0};
    /* valid, stray continuation, overlong, noncharacter, C1 control, truncated */
    gsp_buf_xml(&buf, SV("\xc3\xa9"
                         "\x80"
                         "\xc0\xaf"
                         "|\xef\xbf\xbf|\xc2\x85|\xe2\x82"));
    tap_eq_str(gsp_buf_cstr(&buf), "\xc3\xa9"
                                   "\xef\xbf\xbd"
                                   "\xef\xbf\xbd\xef\xbf\xbd"
                                   "|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd");
}

TAP_TEST(terminal_controls_are_escaped)
{
    gsp_auto_buf buf = {0};
    gsp_buf_term(&buf, SV("ok \xe2\x82\xac\x1b[2J\n\xff\xc2\x9b"));
    /* U+202E reverses the text direction. */
    gsp_buf_put(&buf, "|", 1);
    gsp_buf_term(&buf, (struct gsp_sv){(const char[]){'\xe2', '\x80', '\xae'}, 3});
    tap_eq_str(gsp_buf_cstr(&buf), "ok \xe2\x82\xac\\x1b[2J\\x0a\\xff\\xc2\\x9b|\\xe2\\x80\\xae");
}

TAP_MAIN()
