/* SPDX-License-Identifier: Apache-2.0 */
#include "py/lines.h"

#include <limits.h>
#include <stdbool.h>

#define CODE_UNIT_BYTES      2U

/* The kinds of entries of a location table; 0 to 9 stay on the same line. */
#define LOCATION_ONE_LINE    10U /* 10 to 12: 0, 1 or 2 lines further, columns in two bytes */
#define LOCATION_NO_COLUMNS  13U /* signed varint */
#define LOCATION_LONG        14U /* signed varint, then three varints for end and columns */
#define LOCATION_NONE        15U
#define LOCATION_FIRST_BYTE  0x80U /* set in the first byte of an entry, clear in all others */
#define LINETABLE_NO_LINE    (-128)
#define VARINT_BITS_PER_BYTE 6U
#define VARINT_MORE          0x40U
#define VARINT_BITS_MAX      30U

/* The sum of a table cannot overflow int64_t: a step is less than 2^36. */
static int line_or_unknown(int64_t line)
{
    return line > 0 && line <= INT_MAX ? (int)line : GSP_PY_LINE_UNKNOWN;
}

static int signed_byte(uint8_t byte)
{
    return byte < 128U ? byte : byte - 256;
}

/* Pairs of an address step (unsigned) and a line step (signed). */
static int line_of_lnotab(const uint8_t *table, size_t len, uint32_t first_line, uint32_t addr)
{
    int64_t line = first_line;
    uint64_t at = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        at += table[i];
        if (at > addr)
            break;
        line += signed_byte(table[i + 1]);
    }
    return line_or_unknown(line);
}

/* Pairs of the length of a range and the line step before it. */
static int line_of_linetable(const uint8_t *table, size_t len, uint32_t first_line, uint32_t addr)
{
    int64_t line = first_line;
    uint64_t end = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        int step = signed_byte(table[i + 1]);
        end += table[i];
        if (step != LINETABLE_NO_LINE)
            line += step;
        if (addr < end)
            return step == LINETABLE_NO_LINE ? GSP_PY_LINE_NONE : line_or_unknown(line);
    }
    return GSP_PY_LINE_UNKNOWN;
}

/* Returns false if the number does not end inside its entry. */
static bool read_signed_varint(const uint8_t *table, size_t len, size_t at, int64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; at < len && shift <= VARINT_BITS_MAX; at++) {
        uint8_t byte = table[at];
        if ((byte & LOCATION_FIRST_BYTE) != 0)
            return false;
        value |= (uint64_t)(byte & (VARINT_MORE - 1U)) << shift;
        if ((byte & VARINT_MORE) == 0) {
            int64_t size = (int64_t)(value >> 1U);
            *out = (value & 1U) != 0 ? -size : size;
            return true;
        }
        shift += VARINT_BITS_PER_BYTE;
    }
    return false;
}

static int line_of_locations(const uint8_t *table, size_t len, uint32_t first_line, uint32_t addr)
{
    int64_t line = first_line;
    uint64_t end = 0;
    size_t i = 0;
    while (i < len) {
        uint8_t first = table[i];
        if ((first & LOCATION_FIRST_BYTE) == 0)
            return GSP_PY_LINE_UNKNOWN;
        unsigned kind = (first >> 3U) & 15U;
        int64_t step = 0;
        if (kind >= LOCATION_ONE_LINE && kind < LOCATION_NO_COLUMNS) {
            step = kind - LOCATION_ONE_LINE;
        } else if (kind == LOCATION_NO_COLUMNS || kind == LOCATION_LONG) {
            if (!read_signed_varint(table, len, i + 1, &step))
                return GSP_PY_LINE_UNKNOWN;
        }
        line += step;
        end += ((first & 7ULL) + 1U) * CODE_UNIT_BYTES;
        if (addr < end)
            return kind == LOCATION_NONE ? GSP_PY_LINE_NONE : line_or_unknown(line);
        do {
            i++;
        } while (i < len && (table[i] & LOCATION_FIRST_BYTE) == 0);
    }
    return GSP_PY_LINE_UNKNOWN;
}

int gsp_py_line_of(enum gsp_py_lines lines, const uint8_t *table, size_t len, uint32_t first_line,
                   uint32_t addr_bytes)
{
    switch (lines) {
    case GSP_PY_LINES_LNOTAB:
        return line_of_lnotab(table, len, first_line, addr_bytes);
    case GSP_PY_LINES_LINETABLE:
        return line_of_linetable(table, len, first_line, addr_bytes);
    case GSP_PY_LINES_LOCATIONS:
        return line_of_locations(table, len, first_line, addr_bytes);
    }
    return GSP_PY_LINE_UNKNOWN;
}
