/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/str.h"
#include "base/time.h"

#define SMALL_FILE_MAX 65536U
#define TASKS_MAX      65536U
/* Bytes of a command line that are kept. */
#define CMDLINE_MAX    4096U
/* Bytes of an environment that are searched. */
#define ENVIRON_MAX    (4U << 20)
/* Digits of a rank. */
#define RANK_MAX       10U
/* PF_FORKNOEXEC of the kernel. */
#define FORKED_NO_EXEC 0x40U

/* Reads a small file of /proc/<pid>. Fails with NOPROC if the process has ended. */
static int read_small(struct gsp_buf *buf, struct gsp_err *err, pid_t pid, const char *name)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int rc = gsp_file_read(path, SMALL_FILE_MAX, buf, err);
    if (rc == GSP_E_NOFILE || (rc == GSP_E_IO && err && err->sys == ESRCH))
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d does not exist", (int)pid);
    return rc;
}

/* "pid (comm) S ppid …": comm may contain any character, even ')'. */
static int parse_stat(const char *text, struct gsp_procinfo *out)
{
    const char *open = strchr(text, '(');
    const char *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ')
        return GSP_E_FORMAT;
    size_t len = (size_t)(close - open - 1);
    if (len >= sizeof(out->comm))
        len = sizeof(out->comm) - 1;
    memcpy(out->comm, open + 1, len);
    out->comm[len] = '\0';
    out->state = close[2];
    const char *p = close + 3;
    uint64_t field = 0;
    /* Fields after the state: 4 is ppid, 9 has flags, 22 is starttime, 28 startstack (proc(5)). */
    for (int i = 4; i <= 28; i++) {
        char *end;
        field = strtoull(p, &end, 10);
        if (end == p)
            return GSP_E_FORMAT;
        if (i == 4)
            out->ppid = (pid_t)field;
        if (i == 9)
            out->is_forked = (field & FORKED_NO_EXEC) != 0;
        if (i == 22)
            out->start_ticks = field;
        p = end;
    }
    out->stack_start = field;
    return GSP_OK;
}

/* The last number of the line "NSpid: a b c" of a status file; 0 if the line is missing. */
static pid_t parse_nspid(const char *status)
{
    const char *line = strstr(status, "\nNSpid:");
    if (!line)
        return 0;
    const char *p = line + 7;
    long last = 0;
    while (*p == '\t' || *p == ' ') {
        char *end;
        last = strtol(p, &end, 10);
        if (end == p)
            break;
        p = end;
    }
    return (pid_t)last;
}

int gsp_proc_info(pid_t pid, struct gsp_procinfo *out, struct gsp_err *err)
{
    *out = (struct gsp_procinfo){.pid = pid};
    gsp_auto_buf buf = {0};
    int rc = read_small(&buf, err, pid, "stat");
    if (rc != GSP_OK)
        return rc;
    const char *text = gsp_buf_cstr(&buf);
    if (!text || parse_stat(text, out) != GSP_OK)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "/proc/%d/stat is malformed", (int)pid);
    gsp_buf_clear(&buf);
    if (read_small(&buf, NULL, pid, "status") == GSP_OK && (text = gsp_buf_cstr(&buf)))
        out->ns_pid = parse_nspid(text);
    return GSP_OK;
}

int64_t gsp_proc_age_ns(const struct gsp_procinfo *info)
{
    struct timespec now;
    const long hz = sysconf(_SC_CLK_TCK);
    if (clock_gettime(CLOCK_BOOTTIME, &now) < 0 || hz <= 0)
        return 0;
    const int64_t tick_ns = GSP_NS_PER_S / hz;
    const int64_t now_ns = (int64_t)now.tv_sec * GSP_NS_PER_S + now.tv_nsec;
    if (info->start_ticks >= (uint64_t)(now_ns / tick_ns)) /* the last tick, or not a time */
        return 0;
    return now_ns - (int64_t)info->start_ticks * tick_ns;
}

bool gsp_proc_has_settled(const struct gsp_procinfo *info)
{
    return !info->is_forked || gsp_proc_age_ns(info) >= GSP_PROC_SETTLE_NS;
}

void gsp_proc_cmdline(pid_t pid, struct gsp_buf *out)
{
    gsp_auto_buf buf = {0};
    if (read_small(&buf, NULL, pid, "cmdline") == GSP_OK && buf.len > 0) {
        size_t len = buf.len < CMDLINE_MAX ? buf.len : CMDLINE_MAX;
        while (len > 0 && buf.p[len - 1] == '\0')
            len--;
        for (size_t i = 0; i < len; i++)
            if (buf.p[i] == '\0')
                buf.p[i] = ' ';
        gsp_buf_put(out, buf.p, len);
        return;
    }
    struct gsp_procinfo info;
    if (gsp_proc_info(pid, &info, NULL) == GSP_OK)
        gsp_buf_printf(out, "[%s]", info.comm);
}

bool gsp_proc_env(pid_t pid, const char *name, struct gsp_buf *out)
{
    char path[48];
    gsp_auto_buf buf = {0};
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    if (gsp_file_read(path, ENVIRON_MAX, &buf, NULL) != GSP_OK || !gsp_buf_cstr(&buf))
        return false;
    size_t len = strlen(name);
    for (size_t at = 0; at < buf.len; at += strlen(buf.p + at) + 1) {
        const char *entry = buf.p + at;
        if (strncmp(entry, name, len) == 0 && entry[len] == '=') {
            gsp_buf_puts(out, entry + len + 1);
            return true;
        }
    }
    return false;
}

bool gsp_proc_rank(pid_t pid, int64_t *rank)
{
    gsp_auto_buf value = {0};
    return gsp_proc_env(pid, "RANK", &value) && value.len > 0 && value.len <= RANK_MAX &&
           gsp_parse_i64(gsp_buf_cstr(&value), 0, INT32_MAX, rank, NULL) == GSP_OK;
}

/* The number after a key of a status file; 0 if the key is missing. */
static pid_t status_number(const char *status, const char *key)
{
    const char *line = strstr(status, key);
    return line ? (pid_t)strtol(line + strlen(key), NULL, 10) : 0;
}

bool gsp_proc_parent(pid_t id, pid_t *group, pid_t *ppid)
{
    /* The kernel escapes the name in this file, so it cannot imitate these lines. Both are in the
     * first 512 bytes. */
    char text[512];
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)id);
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (len <= 0)
        return false;
    text[len] = '\0';
    *group = status_number(text, "\nTgid:");
    *ppid = status_number(text, "\nPPid:");
    return *group > 0;
}

void gsp_proc_exe(pid_t pid, struct gsp_buf *out)
{
    char path[48];
    char target[4096];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    ssize_t len = readlink(path, target, sizeof(target));
    if (len <= 0)
        return;
    static const char DELETED[] = " (deleted)";
    struct gsp_sv text = {target, (size_t)len};
    if (gsp_sv_ends(text, DELETED))
        text.len -= sizeof(DELETED) - 1;
    gsp_buf_putsv(out, text);
}

static int by_tid(const void *a, const void *b)
{
    const struct gsp_task *x = a;
    const struct gsp_task *y = b;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Appends the numeric entries of an open task folder. */
static int list_tasks(DIR *dir, struct gsp_task **items, size_t *count)
{
    size_t cap = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char *end;
        long tid = strtol(entry->d_name, &end, 10);
        if (end == entry->d_name || *end || tid <= 0 || *count == TASKS_MAX)
            continue;
        if (!gsp_array_fit(items, &cap, *count + 1))
            return GSP_E_NOMEM;
        (*items)[(*count)++] = (struct gsp_task){(pid_t)tid, (pid_t)tid};
    }
    return GSP_OK;
}

/* Fills in the ids of the process's own pid namespace, if that is not ours. */
static void fill_ns_tids(pid_t pid, struct gsp_task *items, size_t count)
{
    struct gsp_procinfo info;
    if (gsp_proc_info(pid, &info, NULL) != GSP_OK || info.ns_pid == 0 || info.ns_pid == pid)
        return;
    for (size_t i = 0; i < count; i++) {
        gsp_auto_buf buf = {0};
        char name[48];
        snprintf(name, sizeof(name), "task/%d/status", (int)items[i].tid);
        const char *text;
        if (read_small(&buf, NULL, pid, name) == GSP_OK && (text = gsp_buf_cstr(&buf))) {
            pid_t inner = parse_nspid(text);
            if (inner > 0)
                items[i].ns_tid = inner;
        }
    }
}

int gsp_proc_tasks(pid_t pid, struct gsp_task **out, size_t *count, struct gsp_err *err)
{
    *out = NULL;
    *count = 0;
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return gsp_err_set(err, GSP_E_NOPROC, errno, "process %d does not exist", (int)pid);
    struct gsp_task *items = NULL;
    int rc = list_tasks(dir, &items, count);
    closedir(dir);
    if (rc != GSP_OK) {
        free(items);
        *count = 0;
        return gsp_err_nomem(err);
    }
    if (*count == 0) {
        free(items);
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has ended", (int)pid);
    }
    qsort(items, *count, sizeof(*items), by_tid);
    fill_ns_tids(pid, items, *count);
    *out = items;
    return GSP_OK;
}

void gsp_proc_children(pid_t pid, void (*fn)(void *user, pid_t child), void *user)
{
    struct gsp_task *tasks;
    size_t count;
    if (gsp_proc_tasks(pid, &tasks, &count, NULL) != GSP_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        gsp_auto_buf buf = {0};
        char name[48];
        snprintf(name, sizeof(name), "task/%d/children", (int)tasks[i].tid);
        const char *p;
        if (read_small(&buf, NULL, pid, name) != GSP_OK || !(p = gsp_buf_cstr(&buf)))
            continue;
        for (;;) {
            char *end;
            long child = strtol(p, &end, 10);
            if (end == p)
                break;
            if (child > 0)
                fn(user, (pid_t)child);
            p = end;
        }
    }
    free(tasks);
}

static int open_task_file(pid_t pid, pid_t tid, const char *name)
{
    char path[72];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int gsp_proc_taskfd_open(struct gsp_taskfd *task, pid_t pid, pid_t tid)
{
    *task = GSP_TASKFD_CLOSED;
    task->stat_fd = open_task_file(pid, tid, "stat");
    if (task->stat_fd < 0)
        return GSP_E_NOPROC;
    task->sched_fd = open_task_file(pid, tid, "schedstat");
    task->syscall_fd = open_task_file(pid, tid, "syscall");
    return GSP_OK;
}

void gsp_proc_taskfd_close(struct gsp_taskfd *task)
{
    gsp_fd_close(&task->stat_fd);
    gsp_fd_close(&task->sched_fd);
    gsp_fd_close(&task->syscall_fd);
    *task = GSP_TASKFD_CLOSED;
}

enum gsp_activity gsp_proc_taskfd_activity(const struct gsp_taskfd *task)
{
    /* "running", or the number and arguments of the system call in which the thread sleeps, or -1
     * if it sleeps elsewhere. */
    char text[8];
    if (task->syscall_fd < 0 || pread(task->syscall_fd, text, sizeof(text), 0) <= 0)
        return GSP_ACTIVITY_UNKNOWN;
    if (text[0] == 'r')
        return GSP_ACTIVITY_RUNNING;
    return text[0] >= '0' && text[0] <= '9' ? GSP_ACTIVITY_WAITING : GSP_ACTIVITY_UNKNOWN;
}

bool gsp_proc_taskfd_sleep_position(const struct gsp_taskfd *task, uint64_t *sp, uint64_t *pc)
{
    /* "number arguments sp pc", or "-1 sp pc" if the thread sleeps elsewhere (a page fault). */
    char text[256];
    ssize_t len = task->syscall_fd >= 0 ? pread(task->syscall_fd, text, sizeof(text) - 1, 0) : 0;
    if (len <= 0 || text[0] < '0' || text[0] > '9')
        return false;
    text[len] = '\0';
    char *last = strrchr(text, ' ');
    if (!last)
        return false;
    *last = '\0';
    char *before = strrchr(text, ' ');
    if (!before)
        return false;
    *pc = strtoull(last + 1, NULL, 16);
    *sp = strtoull(before + 1, NULL, 16);
    return *pc != 0 && *sp != 0;
}

bool gsp_proc_taskfd_is_running(const struct gsp_taskfd *task)
{
    enum gsp_activity activity = gsp_proc_taskfd_activity(task);
    if (activity == GSP_ACTIVITY_UNKNOWN)
        return gsp_proc_taskfd_state(task) == 'R';
    return activity == GSP_ACTIVITY_RUNNING;
}

uint64_t gsp_proc_taskfd_slices(const struct gsp_taskfd *task)
{
    /* "time-on-cpu time-waiting slices" */
    char text[80];
    ssize_t len = task->sched_fd >= 0 ? pread(task->sched_fd, text, sizeof(text) - 1, 0) : 0;
    if (len <= 0)
        return 0;
    text[len] = '\0';
    const char *p = strchr(text, ' ');
    p = p ? strchr(p + 1, ' ') : NULL;
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

int64_t gsp_proc_task_cpu_ns(pid_t pid, pid_t tid)
{
    gsp_auto_buf buf = {0};
    char name[48];
    int64_t ns = -1;
    snprintf(name, sizeof(name), "task/%d/schedstat", (int)tid);
    const char *text = read_small(&buf, NULL, pid, name) == GSP_OK ? gsp_buf_cstr(&buf) : NULL;
    if (text && text[0] >= '0' && text[0] <= '9')
        ns = (int64_t)strtoull(text, NULL, 10);
    return ns;
}

char gsp_proc_taskfd_state(const struct gsp_taskfd *task)
{
    /* "tid (comm) S …": comm has at most 15 bytes (63 for kernel workers), so the state is in the
     * first 96 bytes. Even for a short read the kernel formats the whole line. */
    char text[128];
    ssize_t len = pread(task->stat_fd, text, sizeof(text) - 1, 0);
    if (len <= 0)
        return 0;
    text[len] = '\0';
    const char *close = strrchr(text, ')');
    if (!close || close + 2 >= text + len)
        return 0;
    return close[2];
}

void gsp_proc_task_comm(pid_t pid, pid_t tid, struct gsp_buf *out)
{
    gsp_auto_buf buf = {0};
    char name[48];
    snprintf(name, sizeof(name), "task/%d/comm", (int)tid);
    if (read_small(&buf, NULL, pid, name) != GSP_OK)
        return;
    while (buf.len > 0 && buf.p[buf.len - 1] == '\n')
        buf.len--;
    gsp_buf_put(out, buf.p, buf.len);
}
