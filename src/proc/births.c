/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/births.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/task.h"

/* "0.20 0.18 0.12 1/80 11206": the last number is the newest id of our pid namespace. */
static pid_t read_newest_id(const struct gsp_births *births)
{
    char text[128];
    ssize_t len = births->fd >= 0 ? pread(births->fd, text, sizeof(text) - 1, 0) : 0;
    if (len <= 0)
        return 0;
    text[len] = '\0';
    const char *last = strrchr(text, ' ');
    long id = last ? strtol(last + 1, NULL, 10) : 0;
    return id > 0 ? (pid_t)id : 0;
}

void gsp_proc_births_open(struct gsp_births *births)
{
    *births = GSP_BIRTHS_CLOSED;
    births->fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    births->last = read_newest_id(births);
    births->before = births->last;
}

void gsp_proc_births_close(struct gsp_births *births)
{
    gsp_fd_close(&births->fd);
    *births = GSP_BIRTHS_CLOSED;
}

bool gsp_proc_births_each(struct gsp_births *births, void (*fn)(void *user, pid_t pid, pid_t ppid),
                          void *user)
{
    pid_t now = read_newest_id(births);
    pid_t first = births->before + 1;
    /* The kernel assigns an id some microseconds before the process appears in /proc, so the ids
     * of the previous call are checked again. */
    births->before = births->last;
    births->last = now;
    if (now <= 0 || first <= 1 || now + 1 < first || now - first >= GSP_BIRTHS_MAX)
        return false;
    for (pid_t id = first; id <= now; id++) {
        pid_t group;
        pid_t ppid;
        if (gsp_proc_parent(id, &group, &ppid) && group == id)
            fn(user, id, ppid);
    }
    return true;
}
