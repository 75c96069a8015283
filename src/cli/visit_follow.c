/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/launch.h"
#include "cli/visit.h"

/* For good: what follows reads that user's memory and writes to that user's folder. */
static bool become_owner(pid_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) != 0)
        return false;
    if (geteuid() != 0 || st.st_uid == 0)
        return true;
    return setgroups(1, &st.st_gid) == 0 && setgid(st.st_gid) == 0 && setuid(st.st_uid) == 0;
}

static void run_child(pid_t pid)
{
    char number[24];
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(number, sizeof(number), "%d", (int)pid);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
        dup2(null, STDERR_FILENO) >= 0 && chdir("/") == 0 && become_owner(pid))
        execl("/proc/self/exe", "gsprof", "follow", number, (char *)NULL);
    _exit(1);
}

void gsp_visit__follow(pid_t pid)
{
    int fd = -1;
    const pid_t child = gsp_launch_apart(&fd, NULL);
    if (child == 0)
        run_child(pid);
    gsp_fd_close(&fd);
}
