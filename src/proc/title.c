/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/title.h"

#include "base/attr.h"
#include "base/title.h"
#include "proc/task.h"

/* Maximum length of a rank, bytes. */
#define RANK_MAX 20U

static void put_own_name(pid_t pid, struct gsp_sv cmdline, struct gsp_buf *out)
{
    gsp_auto_buf comm = {0};
    gsp_auto_buf exe = {0};
    gsp_proc_task_comm(pid, pid, &comm);
    gsp_proc_exe(pid, &exe);
    gsp_title_put_own(gsp_buf_sv(&comm), gsp_sv_basename(gsp_buf_sv(&exe)), cmdline, out);
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
    gsp_title_put_command(cmdline, out);
}
