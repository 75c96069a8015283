/* SPDX-License-Identifier: Apache-2.0 */
/* check.c -- checks whether an injection is possible. */
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "inject/inject.h"
#include "proc/perm.h"
#include "proc/task.h"

#define STATUS_MAX    16384U
#define ANCESTORS_MAX 256U
#define MODE          "Seccomp:"
#define FILTERS       "Seccomp_filters:"
/* How long another gsprof may trace the process. */
#define TRACED_NS     GSP_NS_PER_S
#define PAUSE_NS      (5 * GSP_NS_PER_MS)

static long status_number(const struct gsp_buf *status, const char *key)
{
    struct gsp_sv rest = gsp_buf_sv(status);
    struct gsp_sv line;
    size_t len = strlen(key);
    while (gsp_sv_split(&rest, '\n', &line)) {
        char digits[24];
        if (line.len <= len || memcmp(line.p, key, len) != 0 || line.len - len >= sizeof(digits))
            continue;
        memcpy(digits, line.p + len, line.len - len);
        digits[line.len - len] = '\0';
        return strtol(digits, NULL, 10);
    }
    return -1;
}

static long status_of(pid_t pid, const char *key)
{
    gsp_auto_buf status = {0};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    return gsp_file_read(path, STATUS_MAX, &status, NULL) == GSP_OK ? status_number(&status, key)
                                                                    : -1;
}

static bool is_ancestor_of_us(pid_t pid)
{
    pid_t at = getpid();
    for (unsigned i = 0; i < ANCESTORS_MAX && at > 0; i++) {
        if (at == pid)
            return true;
        at = (pid_t)status_of(at, "PPid:");
    }
    return false;
}

/* Returns whether all filters of the process also apply to us, so that they allow what gsprof
 * itself does. Processes inherit filters: so either a common ancestor has as many as the process;
 * or they are those of a container that gsprof was started in later (docker exec). The first
 * process of the container has as many then, and is not an ancestor of gsprof. */
static bool shares_filters(pid_t pid)
{
    const long theirs = status_of(pid, FILTERS);
    if (theirs < 0 || status_of(getpid(), FILTERS) < theirs)
        return false;
    pid_t at = pid;
    for (unsigned i = 0; i < ANCESTORS_MAX && at > 0; i++) {
        if (status_of(at, FILTERS) < theirs)
            return false;
        if (at != pid && is_ancestor_of_us(at))
            return true;
        if (at == 1)
            return !is_ancestor_of_us(1);
        at = (pid_t)status_of(at, "PPid:");
    }
    return false;
}

/* The rules of a filter are not visible, and breaking one may end the target. */
static int check_seccomp(pid_t pid, bool force, struct gsp_err *err)
{
    long mode = status_of(pid, MODE);
    if (mode == 1)
        return gsp_err_set(
            err, GSP_E_NOTSUP, 0,
            "the process is in seccomp strict mode, where loading a library would end it");
    if (mode != 2 || force || shares_filters(pid))
        return GSP_OK;
    gsp_err_fill(err, GSP_E_NOTSUP, 0,
                 "the process has a seccomp filter, which may end it when it loads a library");
    gsp_err_set_reason(err, GSP_REASON_SECCOMP);
    return GSP_E_NOTSUP;
}

bool gsp_inject__check_thread(pid_t pid, pid_t tid, bool force)
{
    const long mode = status_of(tid, MODE);
    if (tid == pid || mode <= 0)
        return true;
    if (mode != 2)
        return false;
    return force || (mode == status_of(pid, MODE) && status_of(tid, FILTERS) >= 0 &&
                     status_of(tid, FILTERS) <= status_of(pid, FILTERS));
}

/* Between vfork and exec a child shares the memory of its parent: a library would be loaded into
 * both. */
static bool shares_parent_memory(pid_t pid)
{
    struct gsp_procinfo info;
    return gsp_proc_info(pid, &info, NULL) == GSP_OK && info.is_forked &&
           syscall(SYS_kcmp, info.ppid, pid, KCMP_VM, 0UL, 0UL) == 0;
}

/* Reads who may trace the process. If it is traced, it may be another gsprof, which needs it only
 * for some milliseconds. */
static void read_perm(pid_t pid, struct gsp_perm *perm)
{
    const int64_t end_ns = gsp_now_ns() + TRACED_NS;
    gsp_proc_perm_read("", pid, perm);
    while (perm->tracer > 0 && gsp_now_ns() < end_ns) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        gsp_proc_perm_read("", pid, perm);
    }
}

int gsp_inject__check(pid_t pid, bool force, struct gsp_err *err)
{
    struct gsp_perm perm;
    read_perm(pid, &perm);
    if (!perm.exists || perm.state == 'Z' || perm.state == 'X')
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has exited", (int)pid);
    if (pid == getpid())
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "process %d is gsprof itself", (int)pid);
    if (perm.tracer > 0)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the process is already traced by process %d",
                           (int)perm.tracer);
    if (perm.state == 'T' || perm.state == 't')
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the process is stopped (SIGSTOP or Ctrl-Z)");
    if (shares_parent_memory(pid))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the process has not called exec yet (vfork)");
    int rc = gsp_proc_perm_check(pid, err);
    return rc == GSP_OK ? check_seccomp(pid, force, err) : rc;
}
