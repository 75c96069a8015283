/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/sql_text.h"
#include "store/store_internal.h"

/* With errors_as_json, an error of the engine is a JSON object of strings:
 *   {"exception_type":"Binder","exception_message":"...","candidates":"module","position":"7"} */

static unsigned hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        unsigned digit = 16;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        if (digit > 15)
            return '?';
        v = v * 16 + digit;
    }
    return v;
}

/* Appends the character of an escape sequence. Returns its length without the backslash. */
static size_t put_escape(struct gsp_buf *out, const char *p)
{
    switch (*p) {
    case 'n':
    case 'r':
    case 't':
        gsp_buf_putc(out, ' ');
        return 1;
    case 'u': {
        if (strnlen(p, 5) < 5)
            return strlen(p);
        const unsigned v = hex4(p + 1);
        gsp_buf_putc(out, v >= 0x20 && v < 0x7f ? (char)v : ' ');
        return 5;
    }
    case '\0':
        return 0;
    default:
        gsp_buf_putc(out, *p);
        return 1;
    }
}

/* Appends the value of "key". Returns false if it does not exist. */
static bool json_get(const char *json, const char *key, struct gsp_buf *out)
{
    char start[64];
    (void)snprintf(start, sizeof(start), "\"%s\":\"", key);
    const char *p = strstr(json, start);
    if (!p)
        return false;
    p += strlen(start);
    while (*p && *p != '"') {
        /* The suggestions have a key of their own. */
        if (strncmp(p, "\\nDid you mean", 14) == 0 || strncmp(p, "\\nCandidate ", 12) == 0)
            break;
        if (*p == '\\') {
            p++;
            p += put_escape(out, p);
        } else {
            gsp_buf_putc(out, *p++);
        }
    }
    return !out->failed;
}

static void find_position(struct gsp_sv sql, size_t pos, struct gsp_sql_error *where)
{
    where->line = 1;
    where->column = 1;
    for (size_t i = 0; i < pos && i < sql.len; i++) {
        if (sql.p[i] == '\n') {
            where->line++;
            where->column = 1;
        } else if ((sql.p[i] & 0xc0) != 0x80) {
            where->column++;
        }
    }
}

static void fill_where(const struct gsp_engine_error *error, const char *json,
                       struct gsp_sql_error *where)
{
    gsp_auto_buf text = {0};
    if (json_get(json, "position", &text)) {
        const char *digits = gsp_buf_cstr(&text);
        const size_t pos = digits ? (size_t)strtoull(digits, NULL, 10) : 0;
        find_position(error->sql, gsp_store__sql_origin(error->sql, error->run, GSP_CATALOG, pos),
                      where);
    }
    gsp_buf_clear(&text);
    if (json_get(json, "candidates", &text)) {
        /* A comma-separated list, best match first. */
        struct gsp_sv rest = gsp_buf_sv(&text);
        struct gsp_sv first = {NULL, 0};
        if (gsp_sv_split(&rest, ',', &first) && first.len < sizeof(where->candidate)) {
            memcpy(where->candidate, first.p, first.len);
            where->candidate[first.len] = '\0';
        }
    }
}

static int code_of(duckdb_error_type type)
{
    static const struct {
        duckdb_error_type type;
        int code;
    } codes[] = {
        {DUCKDB_ERROR_OUT_OF_MEMORY, GSP_E_LIMIT},
        {DUCKDB_ERROR_INTERRUPT, GSP_E_INTR},
        {DUCKDB_ERROR_PERMISSION, GSP_E_PERM},
        {DUCKDB_ERROR_IO, GSP_E_IO},
    };
    for (size_t i = 0; i < GSP_COUNT(codes); i++)
        if (codes[i].type == type)
            return codes[i].code;
    return GSP_E_USAGE; /* the SQL is wrong */
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Not every function of the engine returns the error type, but the text always contains it. */
static int code_of_text(const struct gsp_engine_error *error, const char *text)
{
    if (has(text, "\"Out of Memory\"") || has(text, "Out of Memory Error") ||
        has(text, "bad_alloc") || has(text, "failed to allocate"))
        return GSP_E_LIMIT;
    if (has(text, "\"Permission\"") || has(text, "Permission Error"))
        return GSP_E_PERM;
    if (has(text, "\"exception_type\":\"INTERRUPT\"") || has(text, "INTERRUPT Error"))
        return GSP_E_INTR;
    if (has(text, "\"exception_type\":\"IO\"") || has(text, "IO Error"))
        return GSP_E_IO;
    return code_of(error->type);
}

int gsp_store__engine_error_convert(const struct gsp_engine_error *error,
                                    struct gsp_sql_error *where, struct gsp_err *err)
{
    const char *text = error->text ? error->text : "the SQL engine failed without a message";
    gsp_auto_buf line = {0};
    if (!json_get(text, "exception_message", &line)) {
        gsp_buf_clear(&line);
        for (const char *p = text; *p; p++)
            gsp_buf_putc(&line, (unsigned char)*p < 0x20 ? ' ' : *p);
    }
    const char *json = strchr(text, '{');
    if (where && json)
        fill_where(error, json, where);
    const char *shown = gsp_buf_cstr(&line);
    const int code = code_of_text(error, text);
    gsp_err_fill(err, code, 0, "%s", shown ? shown : "out of memory");
    return code;
}
