/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "tui/mem_table.h"

static struct gsp_memtop_row rows[] = {
    {{"small (a.py:1)", 14}, 100, 1, 50, 9},
    {{"large (a.py:2)", 14}, 3000, 3, -10, 0},
    {{"bad\x1b[2J (a.py:3)", 16}, 0, 0, 0, 700},
};

static struct gsp_memtop made(enum gsp_memtop_column sort)
{
    struct gsp_memtop top = {.title = {"python3 a.py", 12},
                             .pid = 42,
                             .processes = 1,
                             .rss_bytes = -1,
                             .held_bytes = 3100,
                             .mode = "exact",
                             .sort = sort,
                             .rows = rows,
                             .count = GSP_COUNT(rows)};
    gsp_tui_memtop_sort(&top);
    return top;
}

TAP_TEST(rows_are_sorted)
{
    struct gsp_memtop top = made(GSP_MEMTOP_HELD);
    tap_eq_int(top.rows[0].held_bytes, 3000);
    top = made(GSP_MEMTOP_GROWTH);
    tap_eq_int(top.rows[0].held_bytes, 100);
    top = made(GSP_MEMTOP_RATE);
    tap_eq_int(top.rows[0].held_bytes, 0);
}

TAP_TEST(text_is_escaped_and_fits)
{
    const struct gsp_memtop top = made(GSP_MEMTOP_HELD);
    gsp_auto_buf text = {0};
    gsp_tui_memtop_text(&top, 80, 0, &text);
    const char *shown = gsp_buf_cstr(&text);
    tap_check(strchr(shown, '\x1b') == NULL);
    tap_check(strstr(shown, "large (a.py:2)") != NULL);
    tap_check(strstr(shown, "resident") == NULL);
    size_t lines = 0;
    for (const char *at = shown; *at; at = strchr(at, '\n') + 1) {
        tap_check((size_t)(strchr(at, '\n') - at) <= 80);
        lines++;
    }
    tap_eq_int(lines, GSP_MEMTOP_HEAD_LINES + 3);
    gsp_buf_clear(&text);
    gsp_tui_memtop_text(&top, 80, 1, &text);
    tap_check(strstr(gsp_buf_cstr(&text), "small") == NULL);
}

TAP_TEST(json_has_null_for_unknown_values)
{
    const struct gsp_memtop top = made(GSP_MEMTOP_HELD);
    gsp_auto_buf text = {0};
    gsp_tui_memtop_json(&top, 1, &text);
    const char *json = gsp_buf_cstr(&text);
    tap_check(strstr(json, "\"rss_bytes\":null") != NULL);
    tap_check(strstr(json, "\"rows\":[{\"name\":\"large (a.py:2)\",\"held_bytes\":3000") != NULL);
    tap_check(strchr(json, '\n') == json + strlen(json) - 1);
}

TAP_MAIN()
