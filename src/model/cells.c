/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#define REPLACEMENT   "\xef\xbf\xbd" /* U+FFFD */
/* Digits of the largest 128-bit number, and its sign. */
#define I128_DIGITS   40U
#define DECIMAL_CHUNK UINT64_C(1000000000)
#define CHUNK_DIGITS  9U
/* Seeds of the two hashes that identify a name. */
#define NAME_SEED_A   1U
#define NAME_SEED_B   2U

void gsp_model_cell_put_i128(struct gsp_i128 v, struct gsp_buf *out)
{
    /* Four 32-bit words, highest first: divided by a billion until the quotient is 0. */
    uint64_t high = (uint64_t)v.high;
    uint64_t low = v.low;
    bool is_negative = v.high < 0;
    if (is_negative) {
        low = 0 - low;
        high = ~high + (low == 0);
    }
    uint64_t words[4] = {high >> 32, high & UINT32_MAX, low >> 32, low & UINT32_MAX};
    char digits[I128_DIGITS + CHUNK_DIGITS];
    size_t at = sizeof(digits);
    do {
        uint64_t rest = 0;
        for (size_t i = 0; i < GSP_COUNT(words); i++) {
            uint64_t part = rest << 32 | words[i];
            words[i] = part / DECIMAL_CHUNK;
            rest = part % DECIMAL_CHUNK;
        }
        for (unsigned i = 0; i < CHUNK_DIGITS; i++, rest /= 10)
            digits[--at] = (char)('0' + rest % 10);
    } while (words[0] | words[1] | words[2] | words[3]);
    while (at < sizeof(digits) - 1 && digits[at] == '0')
        at++;
    if (is_negative)
        gsp_buf_putc(out, '-');
    gsp_buf_put(out, digits + at, sizeof(digits) - at);
}

void gsp_model_cell_put_f64(double v, struct gsp_buf *out)
{
    if (!isfinite(v)) {
        const char *inf = v < 0 ? "-inf" : "inf";
        gsp_buf_puts(out, isnan(v) ? "nan" : inf);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    char *comma = strchr(text, ','); /* some locales use a comma */
    if (comma)
        *comma = '.';
    gsp_buf_puts(out, text);
}

struct gsp_sv gsp_model_cell_text(const struct gsp_rows_column *column,
                                  const struct gsp_values *values, size_t row)
{
    if (column->kind != GSP_CELL_DICT)
        return ((const struct gsp_sv *)values->data)[row];
    uint32_t id = ((const uint32_t *)values->data)[row];
    return id < column->dict_count ? column->dict[id] : (struct gsp_sv){NULL, 0};
}

void gsp_model_cell_put(const struct gsp_rows_column *column, const struct gsp_values *values,
                        size_t row, struct gsp_buf *out)
{
    switch (column->kind) {
    case GSP_CELL_I64:
        gsp_buf_printf(out, "%" PRId64, ((const int64_t *)values->data)[row]);
        break;
    case GSP_CELL_I128:
        gsp_model_cell_put_i128(((const struct gsp_i128 *)values->data)[row], out);
        break;
    case GSP_CELL_F64:
        gsp_model_cell_put_f64(((const double *)values->data)[row], out);
        break;
    case GSP_CELL_BOOL:
        gsp_buf_puts(out, ((const uint8_t *)values->data)[row] ? "true" : "false");
        break;
    case GSP_CELL_TEXT:
    case GSP_CELL_JSON:
    case GSP_CELL_DICT:
        gsp_buf_putsv(out, gsp_model_cell_text(column, values, row));
        break;
    }
}

void gsp_model_cell_put_utf8(struct gsp_sv text, struct gsp_buf *out)
{
    size_t start = 0; /* of the valid run */
    size_t i = 0;
    while (i < text.len) {
        size_t n = gsp_utf8_len((struct gsp_sv){text.p + i, text.len - i});
        if (n == 0) {
            gsp_buf_put(out, text.p + start, i - start);
            gsp_buf_puts(out, REPLACEMENT);
            start = i + 1;
        }
        i += n + (n == 0);
    }
    if (text.len > start)
        gsp_buf_put(out, text.p + start, text.len - start);
}

/* Finds the last number appended to a name; NULL if the name is not in use. */
static uint32_t *find_name(const struct gsp_hmap *used, struct gsp_sv name)
{
    return gsp_hmap_get(used, gsp_hash_bytes(name.p, name.len, NAME_SEED_A),
                        gsp_hash_bytes(name.p, name.len, NAME_SEED_B));
}

static bool use_name(struct gsp_hmap *used, struct gsp_sv name, uint32_t number)
{
    return gsp_hmap_put(used, gsp_hash_bytes(name.p, name.len, NAME_SEED_A),
                        gsp_hash_bytes(name.p, name.len, NAME_SEED_B), number);
}

/* Appends a name for column i that is not in use. Returns its length. */
static size_t put_name(const struct gsp_rows *rows, size_t i, struct gsp_hmap *used,
                       struct gsp_buf *bytes)
{
    const char *given = rows->columns[i].name ? rows->columns[i].name : "";
    size_t start = bytes->len;
    if (given[0])
        gsp_model_cell_put_utf8(gsp_sv_of(given), bytes);
    else
        gsp_buf_printf(bytes, "column_%zu", i + 1);
    size_t len = bytes->len - start;
    const uint32_t *last =
        bytes->failed ? NULL : find_name(used, (struct gsp_sv){bytes->p + start, len});
    uint32_t number = last ? *last : 0;
    while (!bytes->failed &&
           find_name(used, (struct gsp_sv){bytes->p + start, bytes->len - start})) {
        bytes->len = start + len;
        number = number < 2 ? 2 : number + 1;
        gsp_buf_printf(bytes, "_%u", number);
    }
    if (bytes->failed || !use_name(used, (struct gsp_sv){bytes->p + start, len}, number) ||
        !use_name(used, (struct gsp_sv){bytes->p + start, bytes->len - start}, 0))
        bytes->failed = true;
    return bytes->len - start;
}

static int fill_names(const struct gsp_rows *rows, struct gsp_rows_names *out)
{
    struct gsp_hmap used = {0};
    struct gsp_buf bytes = {0};
    for (size_t i = 0; i < rows->column_count; i++)
        out->at[i].len = put_name(rows, i, &used, &bytes);
    gsp_hmap_free(&used);
    out->bytes = gsp_buf_take(&bytes);
    if (!out->bytes)
        return GSP_E_NOMEM;
    size_t at = 0;
    for (size_t i = 0; i < rows->column_count; i++) {
        out->at[i].p = out->bytes + at;
        at += out->at[i].len;
    }
    return GSP_OK;
}

int gsp_model_rows_names_new(const struct gsp_rows *rows, struct gsp_rows_names *out,
                             struct gsp_err *err)
{
    *out = (struct gsp_rows_names){0};
    out->at = calloc(rows->column_count + 1, sizeof(*out->at));
    if (out->at && fill_names(rows, out) == GSP_OK)
        return GSP_OK;
    gsp_model_rows_names_free(out);
    return gsp_err_nomem(err);
}

void gsp_model_rows_names_free(struct gsp_rows_names *names)
{
    free(names->at);
    free(names->bytes);
    *names = (struct gsp_rows_names){0};
}
