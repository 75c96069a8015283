/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "tap.h"

#define SV(literal) ((struct gsp_sv){(literal), sizeof(literal) - 1})

TAP_TEST(starts_ends_and_basename)
{
    tap_check(gsp_sv_starts(SV("profile.json"), "prof"));
    tap_check(!gsp_sv_starts(SV("pro"), "prof"));
    tap_check(gsp_sv_ends(SV("a.speedscope.json"), ".json"));
    tap_check(!gsp_sv_ends(SV("json"), ".json"));
    tap_check(gsp_sv_starts((struct gsp_sv){NULL, 0}, ""));
    tap_check(gsp_sv_eq(gsp_sv_basename(SV("/a/b/c.py")), SV("c.py")));
    tap_check(gsp_sv_eq(gsp_sv_basename(SV("c.py")), SV("c.py")));
    tap_check(gsp_sv_eq(gsp_sv_basename(SV("/a/")), SV("")));
}

TAP_TEST(split_returns_every_part)
{
    struct gsp_sv rest = SV("a,,b,");
    struct gsp_sv part;
    tap_check(gsp_sv_split(&rest, ',', &part) && gsp_sv_eq(part, SV("a")));
    tap_check(gsp_sv_split(&rest, ',', &part) && part.len == 0);
    tap_check(gsp_sv_split(&rest, ',', &part) && gsp_sv_eq(part, SV("b")));
    tap_check(gsp_sv_split(&rest, ',', &part) && part.len == 0);
    tap_check(!gsp_sv_split(&rest, ',', &part));
    tap_check(rest.p == NULL);
}

TAP_TEST(utf8_accepts_well_formed_sequences)
{
    tap_eq_int(gsp_utf8_len(SV("a")), 1);
    tap_eq_int(gsp_utf8_len(SV("\0")), 1);
    tap_eq_int(gsp_utf8_len(SV("\xc2\x80")), 2);
    tap_eq_int(gsp_utf8_len(SV("\xdf\xbf")), 2);
    tap_eq_int(gsp_utf8_len(SV("\xe0\xa0\x80")), 3);
    tap_eq_int(gsp_utf8_len(SV("\xed\x9f\xbf")), 3);
    tap_eq_int(gsp_utf8_len(SV("\xef\xbf\xbf")), 3);
    tap_eq_int(gsp_utf8_len(SV("\xf0\x90\x80\x80")), 4);
    tap_eq_int(gsp_utf8_len(SV("\xf4\x8f\xbf\xbf tail")), 4);
}

TAP_TEST(utf8_rejects_malformed_sequences)
{
    static const struct gsp_sv BAD[] = {
        {"", 0},
        {"\x80", 1},             /* continuation first */
        {"\xc0\x80", 2},         /* overlong NUL */
        {"\xc1\xbf", 2},         /* overlong */
        {"\xe0\x80\xaf", 3},     /* overlong slash */
        {"\xe0\x9f\xbf", 3},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 4}, /* overlong */
        {"\xed\xa0\x80", 3},     /* surrogate */
        {"\xed\xbf\xbf", 3},     /* surrogate */
        {"\xf4\x90\x80\x80", 4}, /* past U+10FFFF */
        {"\xf5\x80\x80\x80", 4}, /* past U+10FFFF */
        {"\xff", 1},             /* invalid byte */
        {"\xc3", 1},             /* truncated */
        {"\xe2\x82", 2},         /* truncated */
        {"\xf0\x9f\x98", 3},     /* truncated */
        {"\xc3(", 2},            /* no continuation */
        {"\xe2\x82(", 3},        /* no continuation */
        {"\xf0\x9f\x98\xc3", 4}, /* no continuation */
    };
    for (size_t i = 0; i < GSP_COUNT(BAD); i++)
        if (!tap_eq_int(gsp_utf8_len(BAD[i]), 0))
            printf("# in row %zu\n", i);
}

TAP_TEST(whole_numbers)
{
    int64_t v = 7;
    tap_eq_int(gsp_parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &v, NULL), 0);
    tap_check(v == INT64_MIN);
    tap_eq_int(gsp_parse_i64("+12", 0, 100, &v, NULL), 0);
    tap_eq_int(v, 12);
    static const char *const BAD[] = {"",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x10",
                                      "1e3",
                                      "-",
                                      "+",
                                      "--1",
                                      "1.0",
                                      "101",
                                      "-1",
                                      "9223372036854775808"};
    for (size_t i = 0; i < GSP_COUNT(BAD); i++) {
        struct gsp_err err = {0};
        tap_eq_int(gsp_parse_i64(BAD[i], 0, 100, &v, &err), GSP_E_USAGE);
        tap_check(strstr(err.msg, BAD[i]) != NULL);
    }
    tap_eq_int(v, 12);
}

TAP_TEST(real_numbers)
{
    double v = 0;
    tap_eq_int(gsp_parse_f64("1.5e2", 0, 1000, &v, NULL), 0);
    tap_check(v == 150.0);
    tap_eq_int(gsp_parse_f64(".5", 0, 1, &v, NULL), 0);
    tap_check(v == 0.5);
    static const char *const BAD[] = {"",      ".",     " 1",   "1 ",  "nan",  "inf", "-inf",
                                      "1e999", "0x1p3", "-0X1", "1,5", "1001", "-1",  "e5"};
    for (size_t i = 0; i < GSP_COUNT(BAD); i++)
        if (!tap_eq_int(gsp_parse_f64(BAD[i], 0, 1000, &v, NULL), GSP_E_USAGE))
            printf("# for '%s'\n", BAD[i]);
}

TAP_TEST(durations)
{
    static const struct {
        const char *text;
        int64_t ns;
    } GOOD[] = {{"500ms", 500000000},
                {"2s", 2000000000},
                {"1.5", 1500000000},
                {"3m", 180000000000},
                {"3min", 180000000000},
                {"1h", 3600000000000},
                {"10us", 10000},
                {"7ns", 7},
                {"0", 0},
                {"1d", 86400000000000}};
    int64_t ns = -1;
    for (size_t i = 0; i < GSP_COUNT(GOOD); i++) {
        tap_eq_int(gsp_parse_duration(GOOD[i].text, &ns, NULL), 0);
        tap_eq_int(ns, GOOD[i].ns);
    }
    static const char *const BAD[] = {"", "ms", "1x", "1 s", "-1s", "1e300h", "inf", "1s2", "1S"};
    for (size_t i = 0; i < GSP_COUNT(BAD); i++)
        if (!tap_eq_int(gsp_parse_duration(BAD[i], &ns, NULL), GSP_E_USAGE))
            printf("# for '%s'\n", BAD[i]);
}

TAP_TEST(sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } GOOD[] = {{"0", 0},           {"4096", 4096},
                {"64M", 64u << 20}, {"64MiB", 64u << 20},
                {"1k", 1024},       {"1KB", 1024},
                {"2G", 2ULL << 30}, {"1T", 1ULL << 40},
                {"12B", 12},        {"18446744073709551615", UINT64_MAX}};
    uint64_t bytes = 1;
    for (size_t i = 0; i < GSP_COUNT(GOOD); i++) {
        tap_eq_int(gsp_parse_size(GOOD[i].text, &bytes, NULL), 0);
        tap_check(bytes == GOOD[i].bytes);
    }
    static const char *const BAD[] = {
        "", "M", "-1", " 1", "1.5G", "1X", "1Mi", "1MM", "18446744073709551616", "17179869184G"};
    for (size_t i = 0; i < GSP_COUNT(BAD); i++)
        if (!tap_eq_int(gsp_parse_size(BAD[i], &bytes, NULL), GSP_E_USAGE))
            printf("# for '%s'\n", BAD[i]);
}

TAP_TEST(distance_counts_edits)
{
    tap_eq_int(gsp_str_distance("record", "record"), 0);
    tap_eq_int(gsp_str_distance("recrod", "record"), 1);
    tap_eq_int(gsp_str_distance("recor", "record"), 1);
    tap_eq_int(gsp_str_distance("rexord", "record"), 1);
    tap_eq_int(gsp_str_distance("", "dump"), 4);
    tap_eq_int(gsp_str_distance("kitten", "sitting"), 3);
    tap_eq_int(gsp_str_distance("ca", "abc"), 3);
    char word[200];
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    tap_eq_int(gsp_str_distance(word, "x"), sizeof(word) - 1);
    tap_eq_int(gsp_str_distance(word, word), 0);
}

TAP_MAIN()
