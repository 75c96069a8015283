/* SPDX-License-Identifier: Apache-2.0 */
#include "base/title.h"

#include <string.h>

/* Bytes of a title that come from the command line. */
#define TITLE_MAX 72U

static bool contains(struct gsp_sv text, struct gsp_sv part)
{
    return part.len > 0 && part.len <= text.len && memmem(text.p, text.len, part.p, part.len);
}

/* The kernel names a process after its program. Any other name comes from the process itself. */
void gsp_title_put_own(struct gsp_sv name, struct gsp_sv program, struct gsp_sv cmdline,
                       struct gsp_buf *out)
{
    if (name.len == 0 || gsp_sv_starts(name, "python") || contains(cmdline, name) ||
        contains(program, name))
        return;
    gsp_buf_putsv(out, name);
    gsp_buf_puts(out, ": ");
}

void gsp_title_put_command(struct gsp_sv cmdline, struct gsp_buf *out)
{
    const char *blank = cmdline.len ? memchr(cmdline.p, ' ', cmdline.len) : NULL;
    struct gsp_sv program = {cmdline.p, blank ? (size_t)(blank - cmdline.p) : cmdline.len};
    struct gsp_sv base = gsp_sv_basename(program);
    struct gsp_sv rest = {base.p, cmdline.len - (size_t)(base.p - cmdline.p)};
    bool is_long = rest.len > TITLE_MAX;
    if (is_long)
        rest.len = TITLE_MAX;
    while (is_long && rest.len > 0 && ((unsigned char)rest.p[rest.len] & 0xc0U) == 0x80U)
        rest.len--; /* do not split a character */
    gsp_buf_putsv(out, rest);
    if (is_long)
        gsp_buf_puts(out, "...");
    if (rest.len == 0)
        gsp_buf_puts(out, "python");
}
