/* SPDX-License-Identifier: Apache-2.0 */
#include "record/unsampled_processes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/task.h"
#include "proc/title.h"
#include "sample/tree.h"

#define SHOWN_MAX 4U
#define TRACKER   "multiprocessing.resource_tracker"

static bool is_python(pid_t pid, struct gsp_sv target_exe)
{
    struct gsp_procinfo info;
    gsp_auto_buf exe = {0};
    if (gsp_proc_info(pid, &info, NULL) < 0 || !gsp_proc_has_settled(&info))
        return false;
    gsp_proc_exe(pid, &exe);
    const struct gsp_sv path = gsp_buf_sv(&exe);
    return path.len > 0 &&
           (gsp_sv_eq(path, target_exe) || gsp_sv_starts(gsp_sv_basename(path), "python"));
}

static void put_process(pid_t pid, struct gsp_sv cmdline, bool is_first, struct gsp_buf *out)
{
    gsp_auto_buf title = {0};
    gsp_proc_put_title(pid, cmdline, &title);
    gsp_buf_printf(out, "%s%d (", is_first ? "" : ", ", (int)pid);
    gsp_buf_term(out, gsp_buf_sv(&title));
    gsp_buf_putc(out, ')');
}

size_t gsp_record_unsampled_processes_put(pid_t pid, struct gsp_buf *out)
{
    pid_t *pids = NULL;
    size_t count = 0;
    size_t found = 0;
    gsp_auto_buf exe = {0};
    gsp_proc_exe(pid, &exe);
    if (gsp_sample_tree_pids(pid, &pids, &count, NULL) < 0)
        return 0;
    for (size_t i = 1; i < count; i++) {
        gsp_auto_buf cmdline = {0};
        if (pids[i] == getpid() || !is_python(pids[i], gsp_buf_sv(&exe)))
            continue;
        gsp_proc_cmdline(pids[i], &cmdline);
        const char *text = gsp_buf_cstr(&cmdline);
        if (!text || strstr(text, TRACKER))
            continue;
        if (found < SHOWN_MAX)
            put_process(pids[i], gsp_buf_sv(&cmdline), found == 0, out);
        found++;
    }
    if (found > SHOWN_MAX)
        gsp_buf_printf(out, " and %zu more", found - SHOWN_MAX);
    free(pids);
    return found;
}
