/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/title.h"

#include <string.h>

#include "base/attr.h"
#include "proc/task.h"

/* Bytes of a title that come from the command line, and of a rank. */
#define TITLE_MAX 72U
#define RANK_MAX  20U

static bool contains(struct gsp_sv text, struct gsp_sv part)
{
    return part.len > 0 && part.len <= text.len && memmem(text.p, text.len, part.p, part.len);
}

/* The kernel names a process after its program; all else the process has chosen itself. */
static void put_own_name(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out)
{
    gsp_auto_buf comm = {0};
    gsp_auto_buf exe = {0};
    gsp_task_comm(pid, pid, &comm);
    gsp_proc_exe(pid, &exe);
    const struct gsp_sv name = gsp_buf_sv(&comm);
    if (name.len == 0 || gsp_sv_starts(name, "python") || contains(cmdline, name) ||
        contains(gsp_sv_basename(gsp_buf_sv(&exe)), name))
        return;
    gsp_buf_putsv(out, name);
    gsp_buf_puts(out, ": ");
}

void gsp_proc_put_role(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out)
{
    static const char *const RANKS[][2] = {{"RANK", "rank"}, {"LOCAL_RANK", "local rank"}};
    for (size_t i = 0; i < GSP_COUNT(RANKS); i++) {
        gsp_auto_buf value = {0};
        if (!gsp_proc_env(pid, RANKS[i][0], &value) || value.len == 0 || value.len > RANK_MAX)
            continue;
        gsp_buf_printf(out, "%s %s: ", RANKS[i][1], gsp_buf_cstr(&value));
        break;
    }
    put_own_name(pid, cmdline, out);
}

void gsp_proc_put_title(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out)
{
    gsp_proc_put_role(pid, cmdline, out);
    const char *blank = cmdline.len ? memchr(cmdline.p, ' ', cmdline.len) : NULL;
    struct gsp_sv program = {cmdline.p, blank ? (size_t)(blank - cmdline.p) : cmdline.len};
    struct gsp_sv base = gsp_sv_basename(program);
    struct gsp_sv rest = {base.p, cmdline.len - (size_t)(base.p - cmdline.p)};
    bool is_long = rest.len > TITLE_MAX;
    if (is_long)
        rest.len = TITLE_MAX;
    while (is_long && rest.len > 0 && ((unsigned char)rest.p[rest.len] & 0xc0U) == 0x80U)
        rest.len--; /* not within a character */
    gsp_buf_putsv(out, rest);
    if (is_long)
        gsp_buf_puts(out, "...");
    if (rest.len == 0)
        gsp_buf_puts(out, "python");
}
