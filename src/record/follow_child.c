/* SPDX-License-Identifier: Apache-2.0 */
#include "record/follow_child.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "record/launch.h"

/* Fallback for kernels without close_range(). */
#define DESCRIPTORS_MAX 65536

/* Drops root permanently: the follower reads memory and writes files of that user. */
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

static bool redirect_streams(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
           dup2(null, STDERR_FILENO) >= 0 && chdir("/") == 0;
}

/* A pipe that stays open here would never reach end of file. */
static void close_descriptors(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned int)STDERR_FILENO + 1, ~0U, 0) == 0)
        return;
#endif
    const long most = sysconf(_SC_OPEN_MAX);
    const int end = most > 0 && most < DESCRIPTORS_MAX ? (int)most : DESCRIPTORS_MAX;
    for (int fd = STDERR_FILENO + 1; fd < end; fd++)
        close(fd);
}

/* A signal that is pending must not run an inherited handler. */
static void reset_signals(void)
{
    sigset_t none;
    for (int sig = 1; sig < NSIG; sig++) {
        struct sigaction action;
        if (sigaction(sig, NULL, &action) == 0 && action.sa_handler != SIG_IGN &&
            action.sa_handler != SIG_DFL)
            signal(sig, SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void gsp_record__follow_exec(pid_t pid, const char *option)
{
    char number[24];
    snprintf(number, sizeof(number), "%d", (int)pid);
    reset_signals();
    close_descriptors();
    if (redirect_streams() && become_owner(pid))
        execl("/proc/self/exe", "gsprof", "follow", number, option, (char *)NULL);
    _exit(1);
}

void gsp_record_follow_in_background(pid_t pid)
{
    int fd = -1;
    const pid_t child = gsp_record_background_fork(&fd, NULL);
    if (child == 0)
        gsp_record__follow_exec(pid, NULL);
    gsp_fd_close(&fd);
}
