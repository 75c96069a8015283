/* SPDX-License-Identifier: Apache-2.0 */
#include "base/width.h"

#include <stdint.h>
#include <wchar.h>

/* The width without a locale. Overestimates rather than underestimates. */
static unsigned guess(uint32_t c, size_t bytes)
{
    if (bytes < 3)
        return 1;
    const bool wide = bytes == 4 || (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xd7a3) ||
                      (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) ||
                      (c >= 0xff00 && c <= 0xff60) || (c >= 0x231a && c <= 0x231b) ||
                      (c >= 0x2600 && c <= 0x27bf) || (c >= 0x2b1b && c <= 0x2b55);
    return wide ? 2 : 1;
}

unsigned gsp_width_step(struct gsp_sv *text)
{
    const size_t bytes = gsp_utf8_len(*text);
    uint32_t c = (unsigned char)text->p[0] & (bytes > 1 ? 0x7fU >> bytes : 0x7fU);
    for (size_t i = 1; i < bytes; i++)
        c = c << 6 | ((unsigned char)text->p[i] & 0x3fU);
    const size_t used = bytes > 0 ? bytes : 1;
    *text = (struct gsp_sv){text->p + used, text->len - used};
    if (bytes <= 1)
        return 1;
    const int known = wcwidth((wchar_t)c);
    return known >= 0 ? (unsigned)known : guess(c, bytes);
}

unsigned gsp_width(struct gsp_sv text)
{
    unsigned columns = 0;
    while (text.len > 0)
        columns += gsp_width_step(&text);
    return columns;
}
