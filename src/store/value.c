/* SPDX-License-Identifier: Apache-2.0 */
#include "store/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

__extension__ typedef unsigned __int128 u128;

/* Longer BIGNUMs are printed in hexadecimal. */
#define BIGNUM_BYTES_MAX 1024U

#define US_PER_S         INT64_C(1000000)
#define S_PER_DAY        INT64_C(86400)

static void put_u128(struct gsp_buf *out, u128 v)
{
    char digits[40];
    size_t n = sizeof(digits);
    do {
        digits[--n] = (char)('0' + (int)(v % 10));
        v /= 10;
    } while (v > 0);
    gsp_buf_put(out, digits + n, sizeof(digits) - n);
}

void gsp_store__put_i128(struct gsp_buf *out, uint64_t low, int64_t high)
{
    u128 v = ((u128)(uint64_t)high << 64) | low;
    if (high < 0) {
        gsp_buf_putc(out, '-');
        v = (u128)0 - v;
    }
    put_u128(out, v);
}

/* Appends days since 1970 as a Gregorian date. Years start in March here, so that a leap day is the
 * last day of a year. */
static void put_date(struct gsp_buf *out, int64_t days)
{
    const int64_t shifted = days + 719468; /* since 0000-03-01 */
    const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    const int64_t day = shifted - era * 146097;
    const int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const int64_t day_of_year = day - (365 * year + year / 4 - year / 100);
    const int64_t month_index = (5 * day_of_year + 2) / 153;
    const int64_t month = month_index < 10 ? month_index + 3 : month_index - 9;
    const int64_t shown = year + era * 400 + (month <= 2 ? 1 : 0);
    const int64_t mday = day_of_year - (153 * month_index + 2) / 5 + 1;
    gsp_buf_printf(out, "%04lld-%02lld-%02lld%s", (long long)(shown > 0 ? shown : 1 - shown),
                   (long long)month, (long long)mday, shown > 0 ? "" : " (BC)");
}

/* hh:mm:ss, and the fraction without trailing zeros. */
static void put_clock(struct gsp_buf *out, int64_t seconds, int64_t fraction, int digits)
{
    gsp_buf_printf(out, "%02lld:%02lld:%02lld", (long long)(seconds / 3600),
                   (long long)(seconds / 60 % 60), (long long)(seconds % 60));
    if (fraction == 0)
        return;
    while (fraction % 10 == 0) {
        fraction /= 10;
        digits--;
    }
    gsp_buf_printf(out, ".%0*lld", digits, (long long)fraction);
}

static void put_timestamp(struct gsp_buf *out, int64_t v, int64_t per_second, int digits)
{
    if (v == INT64_MAX || v == -INT64_MAX) {
        gsp_buf_puts(out, v > 0 ? "infinity" : "-infinity");
        return;
    }
    int64_t fraction = v % per_second;
    int64_t seconds = v / per_second;
    if (fraction < 0) {
        fraction += per_second;
        seconds--;
    }
    int64_t days = seconds / S_PER_DAY;
    seconds %= S_PER_DAY;
    if (seconds < 0) {
        seconds += S_PER_DAY;
        days--;
    }
    put_date(out, days);
    gsp_buf_putc(out, ' ');
    put_clock(out, seconds, fraction, digits);
}

static void put_unit(struct gsp_buf *out, int64_t n, const char *unit, size_t start)
{
    if (n != 0) {
        gsp_buf_printf(out, "%s%lld %s%s", out->len > start ? " " : "", (long long)n, unit,
                       n == 1 || n == -1 ? "" : "s");
    }
}

static void put_interval(struct gsp_buf *out, const duckdb_interval *v)
{
    const size_t start = out->len;
    put_unit(out, v->months / 12, "year", start);
    put_unit(out, v->months % 12, "month", start);
    put_unit(out, v->days, "day", start);
    if (v->micros == 0 && out->len > start)
        return;
    gsp_buf_puts(out, out->len > start ? " " : "");
    gsp_buf_puts(out, v->micros < 0 ? "-" : "");
    const uint64_t us = v->micros < 0 ? 0 - (uint64_t)v->micros : (uint64_t)v->micros;
    put_clock(out, (int64_t)(us / US_PER_S), (int64_t)(us % US_PER_S), 6);
}

static void put_time_tz(const struct gsp_cell *cell, struct gsp_buf *out)
{
    duckdb_time_tz v;
    memcpy(&v, (const char *)cell->data + cell->row * sizeof(v), sizeof(v));
    const duckdb_time_tz_struct parts = cell->type->duck->from_time_tz(v);
    put_clock(out, parts.time.hour * 3600 + parts.time.min * 60 + parts.time.sec, parts.time.micros,
              6);
    const int32_t offset = parts.offset < 0 ? -parts.offset : parts.offset;
    gsp_buf_printf(out, "%c%02d", parts.offset < 0 ? '-' : '+', offset / 3600);
    if (offset % 3600)
        gsp_buf_printf(out, ":%02d", offset / 60 % 60);
    if (offset % 60)
        gsp_buf_printf(out, ":%02d", offset % 60);
}

static void put_uuid(struct gsp_buf *out, const duckdb_hugeint *v)
{
    /* The engine inverts the first bit, so that UUIDs sort like their text. */
    const uint64_t high = (uint64_t)v->upper ^ (UINT64_C(1) << 63);
    gsp_buf_printf(out, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
                   (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
                   (unsigned)(v->lower >> 48),
                   (unsigned long long)(v->lower & UINT64_C(0xffffffffffff)));
}

static void put_blob(struct gsp_buf *out, struct gsp_sv bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        const unsigned char c = (unsigned char)bytes.p[i];
        if (c >= 0x20 && c < 0x7f && c != '\\' && c != '\'' && c != '"')
            gsp_buf_putc(out, (char)c);
        else
            gsp_buf_printf(out, "\\x%02X", c);
    }
}

/* The first byte is the number of unused bits at the start of the second. */
static void put_bits(struct gsp_buf *out, struct gsp_sv bytes)
{
    const size_t skip = bytes.len > 0 ? (unsigned char)bytes.p[0] : 0;
    for (size_t bit = skip; bit / 8 + 1 < bytes.len; bit++)
        gsp_buf_putc(out, (bytes.p[bit / 8 + 1] >> (7 - bit % 8)) & 1 ? '1' : '0');
}

/* Three bytes of sign and length, then the magnitude, big-endian. Negative numbers are stored as
 * their complement. */
static void put_bignum(struct gsp_buf *out, struct gsp_sv bytes)
{
    if (bytes.len < 4) {
        gsp_buf_putc(out, '0');
        return;
    }
    const bool negative = ((unsigned char)bytes.p[0] & 0x80) == 0;
    const size_t n = bytes.len - 3;
    gsp_buf_puts(out, negative ? "-" : "");
    uint8_t magnitude[BIGNUM_BYTES_MAX];
    for (size_t i = 0; i < n && i < sizeof(magnitude); i++) {
        const uint8_t byte = (uint8_t)bytes.p[i + 3];
        magnitude[i] = negative ? (uint8_t)~byte : byte;
    }
    if (n > sizeof(magnitude)) {
        gsp_buf_puts(out, "0x");
        for (size_t i = 0; i < n; i++) {
            const unsigned byte = (uint8_t)bytes.p[i + 3];
            gsp_buf_printf(out, "%02x", negative ? ~byte & 0xff : byte);
        }
        return;
    }
    /* Repeated division by ten gives the digits from the last to the first. */
    char digits[BIGNUM_BYTES_MAX * 5 / 2];
    size_t at = sizeof(digits);
    bool more = true;
    while (more && at > 0) {
        unsigned rest = 0;
        more = false;
        for (size_t i = 0; i < n; i++) {
            const unsigned v = rest * 256 + magnitude[i];
            magnitude[i] = (uint8_t)(v / 10);
            rest = v % 10;
            more |= magnitude[i] != 0;
        }
        digits[--at] = (char)('0' + (int)rest);
    }
    gsp_buf_put(out, digits + at, sizeof(digits) - at);
}

struct gsp_sv gsp_store__cell_bytes(const struct gsp_cell *cell)
{
    const duckdb_string_t *v = (const duckdb_string_t *)cell->data + cell->row;
    const uint32_t len = v->value.inlined.length;
    return (struct gsp_sv){len <= 12 ? v->value.inlined.inlined : v->value.pointer.ptr, len};
}

int64_t gsp_store__cell_i64(const struct gsp_cell *cell)
{
    const uint64_t row = cell->row;
    switch ((unsigned)cell->type->id) {
    case DUCKDB_TYPE_BOOLEAN:
        return ((const uint8_t *)cell->data)[row] != 0;
    case DUCKDB_TYPE_TINYINT:
        return ((const int8_t *)cell->data)[row];
    case DUCKDB_TYPE_SMALLINT:
        return ((const int16_t *)cell->data)[row];
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_DATE:
        return ((const int32_t *)cell->data)[row];
    case DUCKDB_TYPE_UTINYINT:
        return ((const uint8_t *)cell->data)[row];
    case DUCKDB_TYPE_USMALLINT:
        return ((const uint16_t *)cell->data)[row];
    case DUCKDB_TYPE_UINTEGER:
        return ((const uint32_t *)cell->data)[row];
    default:
        return ((const int64_t *)cell->data)[row];
    }
}

static double decimal_f64(const struct gsp_cell *cell)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
                                    1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29,
                                    1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38};
    const uint64_t row = cell->row;
    const uint8_t scale = cell->type->scale;
    const double power = scale < GSP_COUNT(powers) ? powers[scale] : 1;
    switch ((unsigned)cell->type->inner) {
    case DUCKDB_TYPE_SMALLINT:
        return ((const int16_t *)cell->data)[row] / power;
    case DUCKDB_TYPE_INTEGER:
        return ((const int32_t *)cell->data)[row] / power;
    case DUCKDB_TYPE_BIGINT:
        return (double)((const int64_t *)cell->data)[row] / power;
    default: {
        const duckdb_hugeint *v = (const duckdb_hugeint *)cell->data + row;
        return ((double)v->upper * 18446744073709551616.0 + (double)v->lower) / power;
    }
    }
}

double gsp_store__cell_f64(const struct gsp_cell *cell)
{
    if (cell->type->id == DUCKDB_TYPE_FLOAT)
        return (double)((const float *)cell->data)[cell->row];
    if (cell->type->id == DUCKDB_TYPE_DOUBLE)
        return ((const double *)cell->data)[cell->row];
    return decimal_f64(cell);
}

static uint32_t enum_index(const struct gsp_cell *cell)
{
    switch ((unsigned)cell->type->inner) {
    case DUCKDB_TYPE_UTINYINT:
        return ((const uint8_t *)cell->data)[cell->row];
    case DUCKDB_TYPE_USMALLINT:
        return ((const uint16_t *)cell->data)[cell->row];
    default:
        return ((const uint32_t *)cell->data)[cell->row];
    }
}

static struct gsp_sv enum_text(const struct gsp_cell *cell)
{
    const uint32_t i = enum_index(cell);
    return i < cell->type->dict_count ? cell->type->dict[i] : (struct gsp_sv){"", 0};
}

static void put_json(const struct gsp_cell *cell, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_store__cell_json(cell, &json);
}

/* Times and 128-bit types. */
static void put_wide(const struct gsp_cell *cell, struct gsp_buf *out)
{
    const int64_t *i64 = cell->data;
    const duckdb_hugeint *i128 = cell->data;
    const uint64_t row = cell->row;
    switch ((unsigned)cell->type->id) {
    case DUCKDB_TYPE_TIMESTAMP:
        put_timestamp(out, i64[row], US_PER_S, 6);
        break;
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        put_timestamp(out, i64[row], US_PER_S, 6);
        gsp_buf_puts(out, "+00");
        break;
    case DUCKDB_TYPE_TIMESTAMP_S:
        put_timestamp(out, i64[row], 1, 0);
        break;
    case DUCKDB_TYPE_TIMESTAMP_MS:
        put_timestamp(out, i64[row], 1000, 3);
        break;
    case DUCKDB_TYPE_TIMESTAMP_NS:
        put_timestamp(out, i64[row], 1000000000, 9);
        break;
    case DUCKDB_TYPE_TIME:
        put_clock(out, i64[row] / US_PER_S, i64[row] % US_PER_S, 6);
        break;
    case DUCKDB_TYPE_TIME_NS:
        put_clock(out, i64[row] / 1000000000, i64[row] % 1000000000, 9);
        break;
    case DUCKDB_TYPE_TIME_TZ:
        put_time_tz(cell, out);
        break;
    case DUCKDB_TYPE_INTERVAL:
        put_interval(out, (const duckdb_interval *)cell->data + row);
        break;
    case DUCKDB_TYPE_UUID:
        put_uuid(out, &i128[row]);
        break;
    case DUCKDB_TYPE_HUGEINT:
        gsp_store__put_i128(out, i128[row].lower, i128[row].upper);
        break;
    case DUCKDB_TYPE_UHUGEINT:
        put_u128(out, ((u128)(uint64_t)i128[row].upper << 64) | i128[row].lower);
        break;
    case DUCKDB_TYPE_UBIGINT:
        gsp_buf_putu64(out, (uint64_t)i64[row]);
        break;
    default:
        put_json(cell, out);
        break;
    }
}

void gsp_store__cell_text(const struct gsp_cell *cell, struct gsp_buf *out)
{
    switch ((unsigned)cell->type->id) {
    case DUCKDB_TYPE_VARCHAR:
        gsp_buf_putsv(out, gsp_store__cell_bytes(cell));
        break;
    case DUCKDB_TYPE_ENUM:
        gsp_buf_putsv(out, enum_text(cell));
        break;
    case DUCKDB_TYPE_DATE: {
        const int64_t days = gsp_store__cell_i64(cell);
        if (days == INT32_MAX || days == -INT32_MAX)
            gsp_buf_puts(out, days > 0 ? "infinity" : "-infinity");
        else
            put_date(out, days);
        break;
    }
    case DUCKDB_TYPE_BLOB:
        put_blob(out, gsp_store__cell_bytes(cell));
        break;
    case DUCKDB_TYPE_BIT:
        put_bits(out, gsp_store__cell_bytes(cell));
        break;
    case DUCKDB_TYPE_BIGNUM:
        put_bignum(out, gsp_store__cell_bytes(cell));
        break;
    default:
        put_wide(cell, out);
        break;
    }
}

static bool is_null(const struct gsp_cell *cell)
{
    const uint64_t *valid = cell->type->duck->vector_get_validity(cell->vector);
    return cell->type->id == DUCKDB_TYPE_SQLNULL ||
           (valid && ((valid[cell->row / 64] >> (cell->row % 64)) & 1) == 0);
}

static struct gsp_cell cell_in(const struct gsp_vtype *type, duckdb_vector vector, uint64_t row)
{
    return (struct gsp_cell){type, vector, type->duck->vector_get_data(vector), row};
}

static void json_list(const struct gsp_cell *cell, struct gsp_json *out)
{
    const struct gsp_duckdb *duck = cell->type->duck;
    duckdb_list_entry entry = {cell->row * cell->type->array_size, cell->type->array_size};
    duckdb_vector items = NULL;
    if (cell->type->id == DUCKDB_TYPE_LIST) {
        entry = ((const duckdb_list_entry *)cell->data)[cell->row];
        items = duck->list_vector_get_child(cell->vector);
    } else {
        items = duck->array_vector_get_child(cell->vector);
    }
    gsp_json_arr_begin(out);
    for (uint64_t i = 0; i < entry.length; i++) {
        const struct gsp_cell item = cell_in(&cell->type->children[0], items, entry.offset + i);
        gsp_store__cell_json(&item, out);
    }
    gsp_json_arr_end(out);
}

static void json_struct(const struct gsp_cell *cell, struct gsp_json *out)
{
    gsp_json_obj_begin(out);
    for (size_t i = 0; i < cell->type->child_count; i++) {
        const struct gsp_cell item =
            cell_in(&cell->type->children[i],
                    cell->type->duck->struct_vector_get_child(cell->vector, i), cell->row);
        gsp_json_key(out, cell->type->names[i]);
        gsp_store__cell_json(&item, out);
    }
    gsp_json_obj_end(out);
}

/* A map is a list of (key, value) structs. */
static void json_map(const struct gsp_cell *cell, struct gsp_json *out)
{
    const struct gsp_duckdb *duck = cell->type->duck;
    const duckdb_list_entry entry = ((const duckdb_list_entry *)cell->data)[cell->row];
    duckdb_vector pairs = duck->list_vector_get_child(cell->vector);
    duckdb_vector keys = duck->struct_vector_get_child(pairs, 0);
    duckdb_vector values = duck->struct_vector_get_child(pairs, 1);
    gsp_auto_buf text = {0};
    gsp_json_obj_begin(out);
    for (uint64_t i = entry.offset; i < entry.offset + entry.length; i++) {
        const struct gsp_cell key = cell_in(&cell->type->children[0], keys, i);
        const struct gsp_cell value = cell_in(&cell->type->children[1], values, i);
        gsp_buf_clear(&text);
        gsp_store__cell_text(&key, &text);
        gsp_json_keysv(out, gsp_buf_sv(&text));
        gsp_store__cell_json(&value, out);
    }
    gsp_json_obj_end(out);
}

/* A union is a struct of a tag and all members; the tag selects the member. */
static void json_union(const struct gsp_cell *cell, struct gsp_json *out)
{
    const struct gsp_duckdb *duck = cell->type->duck;
    const uint8_t *tags = duck->vector_get_data(duck->struct_vector_get_child(cell->vector, 0));
    const size_t member = tags[cell->row];
    if (member >= cell->type->child_count) {
        gsp_json_null(out);
        return;
    }
    const struct gsp_cell item =
        cell_in(&cell->type->children[member],
                duck->struct_vector_get_child(cell->vector, member + 1), cell->row);
    gsp_store__cell_json(&item, out);
}

static void json_text(const struct gsp_cell *cell, struct gsp_json *out)
{
    gsp_auto_buf text = {0};
    gsp_store__cell_text(cell, &text);
    const bool number = cell->type->id == DUCKDB_TYPE_HUGEINT ||
                        cell->type->id == DUCKDB_TYPE_UHUGEINT ||
                        cell->type->id == DUCKDB_TYPE_UBIGINT;
    if ((number || cell->type->is_json) && !text.failed)
        gsp_json_raw(out, gsp_buf_sv(&text));
    else
        gsp_json_sv(out, gsp_buf_sv(&text));
}

void gsp_store__cell_json(const struct gsp_cell *cell, struct gsp_json *out)
{
    if (is_null(cell)) {
        gsp_json_null(out);
        return;
    }
    switch ((unsigned)cell->type->id) {
    case DUCKDB_TYPE_BOOLEAN:
        gsp_json_bool(out, gsp_store__cell_i64(cell) != 0);
        break;
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
        gsp_json_i64(out, gsp_store__cell_i64(cell));
        break;
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_DECIMAL:
        gsp_json_f64(out, gsp_store__cell_f64(cell));
        break;
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_ARRAY:
        json_list(cell, out);
        break;
    case DUCKDB_TYPE_STRUCT:
        json_struct(cell, out);
        break;
    case DUCKDB_TYPE_MAP:
        json_map(cell, out);
        break;
    case DUCKDB_TYPE_UNION:
        json_union(cell, out);
        break;
    default:
        json_text(cell, out);
        break;
    }
}
