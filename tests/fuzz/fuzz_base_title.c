/* SPDX-License-Identifier: Apache-2.0 */
/* Titles of processes: the name, the program and the command line, separated by newlines. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/title.h"

#define TITLE_MAX 75U /* with the dots */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gsp_sv next_part(struct gsp_sv *rest)
{
    const char *end = rest->len ? memchr(rest->p, '\n', rest->len) : NULL;
    const struct gsp_sv part = {rest->p, end ? (size_t)(end - rest->p) : rest->len};
    const size_t used = part.len + (end ? 1U : 0U);
    rest->p += used;
    rest->len -= used;
    return part;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of its own for each, so that a read beyond one is noticed. */
    struct gsp_sv rest = {(const char *)data, size};
    char *copies[3];
    struct gsp_sv parts[3];
    for (size_t i = 0; i < GSP_COUNT(parts); i++) {
        const struct gsp_sv part = i + 1 < GSP_COUNT(parts) ? next_part(&rest) : rest;
        copies[i] = malloc(part.len + (part.len == 0));
        if (!copies[i])
            abort();
        if (part.len)
            memcpy(copies[i], part.p, part.len);
        parts[i] = (struct gsp_sv){copies[i], part.len};
    }
    gsp_auto_buf buf = {0};
    gsp_title_put_own(parts[0], parts[1], parts[2], &buf);
    if (buf.len != 0 && buf.len != parts[0].len + 2)
        abort();
    gsp_buf_clear(&buf);
    gsp_title_put_command(parts[2], &buf);
    if (buf.len == 0 || buf.len > TITLE_MAX)
        abort();
    for (size_t i = 0; i < GSP_COUNT(copies); i++)
        free(copies[i]);
    return 0;
}
