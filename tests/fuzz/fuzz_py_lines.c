/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_py_lines.c -- line tables. The first byte selects the format, four bytes are the address,
 * the rest is the table.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "py/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint32_t addr = 0;
    if (len < 1 + sizeof(addr))
        return 0;
    memcpy(&addr, data + 1, sizeof(addr));
    enum gsp_py_lines lines = (enum gsp_py_lines)(data[0] % 3U);
    int line = gsp_py_line_of(lines, data + 5, len - 5, 1, addr);
    if (line < GSP_PY_LINE_NONE)
        abort();
    return 0;
}
