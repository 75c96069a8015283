/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_base_text.c -- escapes and parses arbitrary text, and checks the output.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Escaped output is always UTF-8 without control characters. */
static void require_clean(struct gsp_sv text)
{
    while (text.len) {
        size_t n = gsp_utf8_len(text);
        require(n > 0 && n <= text.len && (unsigned char)text.p[0] >= 0x20);
        text.p += n;
        text.len -= n;
    }
}

static void parse_numbers(const char *text)
{
    int64_t i;
    uint64_t u;
    double f;
    if (gsp_parse_i64(text, -100, 100, &i, NULL) == 0)
        require(i >= -100 && i <= 100);
    if (gsp_parse_f64(text, -1, 1, &f, NULL) == 0)
        require(f >= -1 && f <= 1);
    if (gsp_parse_duration(text, &i, NULL) == 0)
        require(i >= 0);
    require(gsp_parse_size(text, &u, NULL) <= 0);
    require(gsp_str_distance(text, text) == 0);
    require(gsp_str_distance(text, "record") == gsp_str_distance("record", text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_sv text = {(const char *)data, size};
    gsp_auto_buf buf = {0};
    gsp_buf_xml(&buf, text);
    require_clean(gsp_buf_sv(&buf));
    gsp_buf_clear(&buf);
    gsp_buf_term(&buf, text);
    require_clean(gsp_buf_sv(&buf));
    gsp_buf_clear(&buf);
    struct gsp_json json;
    gsp_json_init(&json, &buf);
    gsp_json_sv(&json, text);
    require_clean(gsp_buf_sv(&buf));

    gsp_buf_clear(&buf);
    gsp_buf_putsv(&buf, text);
    const char *line = gsp_buf_cstr(&buf);
    require(line != NULL);
    parse_numbers(line);

    struct gsp_cursor cur = {data, data ? data + size : NULL};
    uint64_t v;
    while (gsp_cursor_varint(&cur, &v))
        require(cur.p <= cur.end);
    return 0;
}
