/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "inject/run_python.h"
#include "proc/task.h"

#define FOUND_MAX    64U
#define ANCESTORS    64U
#define CMDLINE_SHOW 100U

struct found {
    pid_t pids[FOUND_MAX];
    size_t count;
};

/* Whether a process is gsprof or one of its ancestors: their command lines contain the text, too.
 */
static bool is_ancestor(pid_t pid)
{
    pid_t at = getpid();
    for (size_t i = 0; i < ANCESTORS && at > 1; i++) {
        pid_t group;
        pid_t parent;
        if (at == pid)
            return true;
        if (!gsp_proc_parent(at, &group, &parent))
            break;
        at = parent;
    }
    return false;
}

static bool matches(pid_t pid, const char *text)
{
    gsp_auto_buf cmdline = {0};
    gsp_proc_cmdline(pid, &cmdline);
    const char *line = gsp_buf_cstr(&cmdline);
    return line && strstr(line, text) != NULL;
}

static bool is_python(pid_t pid)
{
    struct gsp_py_runtime runtime;
    int rc = gsp_inject_locate_python(pid, &runtime, NULL);
    return rc == GSP_OK || rc == GSP_E_STARTING;
}

static int search(const char *text, struct found *found, struct gsp_err *err)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return gsp_err_set(err, GSP_E_IO, 0, "cannot read /proc");
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL && found->count < FOUND_MAX) {
        int64_t pid;
        if (gsp_parse_i64(entry->d_name, 1, INT32_MAX, &pid, NULL) == GSP_OK &&
            matches((pid_t)pid, text) && !is_ancestor((pid_t)pid) && is_python((pid_t)pid))
            found->pids[found->count++] = (pid_t)pid;
    }
    closedir(dir);
    return GSP_OK;
}

static void put_list(const struct found *found, struct gsp_buf *list)
{
    for (size_t i = 0; i < found->count; i++) {
        gsp_auto_buf cmdline = {0};
        gsp_proc_cmdline(found->pids[i], &cmdline);
        struct gsp_sv shown = gsp_buf_sv(&cmdline);
        shown.len = shown.len < CMDLINE_SHOW ? shown.len : CMDLINE_SHOW;
        gsp_buf_printf(list, "    %7d  ", (int)found->pids[i]);
        gsp_buf_term(list, shown);
        gsp_buf_putc(list, '\n');
    }
}

int gsp_inject_find_process(const char *text, pid_t *out, struct gsp_buf *list, struct gsp_err *err)
{
    int64_t pid = 0;
    struct found found = {.count = 0};
    *out = 0;
    if (text[0] && text[strspn(text, "0123456789")] == '\0') {
        if (gsp_parse_i64(text, 1, INT32_MAX, &pid, NULL) != GSP_OK)
            return gsp_err_set(err, GSP_E_NOPROC, 0, "%.40s is not a process id", text);
        *out = (pid_t)pid;
        return GSP_OK;
    }
    int rc = search(text, &found, err);
    if (rc != GSP_OK)
        return rc;
    if (found.count == 0)
        return gsp_err_set(err, GSP_E_NOPROC, 0,
                           "no Python process has '%.100s' in its command line", text);
    if (found.count > 1) {
        put_list(&found, list);
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "%zu Python processes have '%.100s' in their command lines", found.count,
                           text);
    }
    *out = found.pids[0];
    return GSP_OK;
}
