/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "py/lines.h"
#include "tap.h"

#define TABLE_MAX 65536U

struct fixture {
    uint32_t first_line;
    uint8_t table[TABLE_MAX];
    size_t len;
};

static uint8_t nibble(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static bool parse_code(const char *text, struct fixture *out)
{
    char *end = NULL;
    if (strncmp(text, "code ", 5) != 0)
        return false;
    out->first_line = (uint32_t)strtoul(text + 5, &end, 10);
    out->len = 0;
    for (const char *p = end + 1; isxdigit((unsigned char)*p) && out->len < TABLE_MAX; p += 2)
        out->table[out->len++] = (uint8_t)(nibble(p[0]) << 4U | nibble(p[1]));
    return true;
}

/* Checks every instruction of every run START-END:LINE. Returns the number of instructions. */
static size_t compare_runs(enum gsp_py_lines lines, const struct fixture *code, const char *text)
{
    size_t compared = 0;
    while (isdigit((unsigned char)*text)) {
        char *at = NULL;
        uint32_t start = (uint32_t)strtoul(text, &at, 10);
        uint32_t end = (uint32_t)strtoul(at + 1, &at, 10);
        long line = strtol(at + 1, &at, 10);
        for (uint32_t addr = start; addr < end; addr += 2) {
            tap_eq_int(gsp_py_line_of(lines, code->table, code->len, code->first_line, addr), line);
            compared++;
        }
        text = at + strspn(at, " ");
    }
    return compared;
}

/* Compares with the lines that an interpreter of that version reported (data/make_lines.py). */
static void compare_file(const char *version, enum gsp_py_lines lines)
{
    static struct fixture code;
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/lines_%s.txt", GSP_TEST_DATA, version);
    FILE *file = fopen(path, "re");
    tap_check(file != NULL);
    if (!file)
        return;
    char *line = NULL;
    size_t cap = 0;
    size_t compared = 0;
    size_t codes = 0;
    while (getline(&line, &cap, file) > 0)
        if (parse_code(line, &code))
            codes++;
        else
            compared += compare_runs(lines, &code, line);
    free(line);
    (void)fclose(file);
    tap_check(codes >= 10);
    tap_check(compared >= 400);
}

TAP_TEST(lines_of_3_8)
{
    compare_file("3.8", GSP_PY_LINES_LNOTAB);
}

TAP_TEST(lines_of_3_9)
{
    compare_file("3.9", GSP_PY_LINES_LNOTAB);
}

TAP_TEST(lines_of_3_10)
{
    compare_file("3.10", GSP_PY_LINES_LINETABLE);
}

TAP_TEST(lines_of_3_11)
{
    compare_file("3.11", GSP_PY_LINES_LOCATIONS);
}

TAP_TEST(lines_of_3_12)
{
    compare_file("3.12", GSP_PY_LINES_LOCATIONS);
}

TAP_TEST(lines_of_3_13)
{
    compare_file("3.13", GSP_PY_LINES_LOCATIONS);
}

TAP_TEST(lines_of_3_14)
{
    compare_file("3.14", GSP_PY_LINES_LOCATIONS);
}

TAP_TEST(lines_of_3_15)
{
    compare_file("3.15", GSP_PY_LINES_LOCATIONS);
}

TAP_TEST(past_the_end_is_unknown)
{
    static const uint8_t locations[] = {0x80U | (13U << 3U), 0x02}; /* one unit, one line further */
    static const uint8_t linetable[] = {2, 1};
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, locations, 2, 10, 0), 11);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, locations, 2, 10, 2), GSP_PY_LINE_UNKNOWN);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LINETABLE, linetable, 2, 10, 1), 11);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LINETABLE, linetable, 2, 10, 2), GSP_PY_LINE_UNKNOWN);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LNOTAB, NULL, 0, 10, 2), 10);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, NULL, 0, 10, 2), GSP_PY_LINE_UNKNOWN);
}

TAP_TEST(a_malformed_table_is_unknown)
{
    static const uint8_t no_first[] = {0x01, 0x02};
    static const uint8_t truncated[] = {0x80U | (14U << 3U)};
    static const uint8_t runs_on[] = {
        0x80U | (13U << 3U), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x01};
    static const uint8_t below_one[] = {0x80U | (13U << 3U), 0x3f}; /* 31 lines back */
    static const uint8_t odd[] = {4};
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, no_first, 2, 10, 0), GSP_PY_LINE_UNKNOWN);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, truncated, 1, 10, 0), GSP_PY_LINE_UNKNOWN);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, runs_on, sizeof(runs_on), 10, 0),
               GSP_PY_LINE_UNKNOWN);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LOCATIONS, below_one, 2, 10, 0), GSP_PY_LINE_UNKNOWN);
    tap_eq_int(gsp_py_line_of(GSP_PY_LINES_LINETABLE, odd, 1, 10, 0), GSP_PY_LINE_UNKNOWN);
}

TAP_MAIN()
