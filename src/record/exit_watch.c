/* SPDX-License-Identifier: Apache-2.0 */
#include "record/exit_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/types.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "proc/pidfd.h"
#include "ring/reader.h"
#include "wire/table.h"

#define STAT_BYTES_MAX   2048U
#define CGROUP_BYTES_MAX ((size_t)64 << 10)
#define STAT_EXIT_CODE   52 /* field of /proc/PID/stat, from 1 */
#define KMSG_LINES_MAX   4096U
/* The thread checks this often whether to end. pthread_cancel() is not an option: it loads a
 * library, and aborts the process if no file descriptor is free. */
#define CLOSE_MS         100

/* From linux/pidfd.h of Linux 6.15; older headers lack it. This is the first version of the struct,
 * which later kernels accept. */
struct pidfd_info_0 {
    __u64 mask;
    __u64 cgroup_id;
    __u32 ids[11];
    __s32 exit_code;
};
#define PIDFD_INFO_EXIT_0 (1UL << 3)
#define PIDFD_GET_INFO_0  _IOWR(0xFF, 11, struct pidfd_info_0)

struct gsp_exit_watch {
    pid_t pid;
    int pidfd;
    int stat_fd;
    int kmsg_fd; /* -1: not readable */
    bool has_thread;
    pthread_t thread;
    int status; /* as from wait(); valid if is_known */
    bool is_known;
    _Atomic bool has_ended;
    _Atomic bool is_closing;
    char events[PATH_MAX]; /* memory.events of its cgroup; "": none */
    uint64_t kills;        /* oom_kill of its cgroup at the start */
};

uint64_t gsp_record__cgroup_counter(const char *text, size_t len, const char *key)
{
    struct gsp_sv rest = {text, len};
    struct gsp_sv line;
    const size_t n = strlen(key);
    while (gsp_sv_split(&rest, '\n', &line)) {
        uint64_t v = 0;
        if (line.len <= n || line.p[n] != ' ' || memcmp(line.p, key, n) != 0)
            continue;
        for (size_t i = n + 1; i < line.len && line.p[i] >= '0' && line.p[i] <= '9'; i++)
            v = v * 10 + (uint64_t)(line.p[i] - '0');
        return v;
    }
    return 0;
}

bool gsp_record__oom_line_is_of(const char *line, size_t len, pid_t pid)
{
    char words[64];
    const int n = snprintf(words, sizeof(words), "Killed process %d (", (int)pid);
    return n > 0 && memmem(line, len, words, (size_t)n) != NULL;
}

/* Finds the file with the oom_kill counter of the process's cgroup: memory.events, or
 * memory.oom_control in cgroup v1. */
static void find_events(struct gsp_exit_watch *watch)
{
    char path[64];
    gsp_auto_buf text = {0};
    struct gsp_sv line;
    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)watch->pid);
    if (gsp_file_read(path, CGROUP_BYTES_MAX, &text, NULL) < 0)
        return;
    struct gsp_sv rest = gsp_buf_sv(&text);
    while (gsp_sv_split(&rest, '\n', &line)) {
        const char *at = line.p ? memmem(line.p, line.len, ":memory:", 8) : NULL;
        const bool is_v2 = gsp_sv_starts(line, "0::");
        if (!at && !is_v2)
            continue;
        const char *group = is_v2 ? line.p + 3 : at + 8;
        const int n = snprintf(watch->events, sizeof(watch->events), "/sys/fs/cgroup%s%.*s/%s",
                               is_v2 ? "" : "/memory", (int)(line.p + line.len - group), group,
                               is_v2 ? "memory.events" : "memory.oom_control");
        if (n > 0 && (size_t)n < sizeof(watch->events) && access(watch->events, R_OK) == 0)
            return;
        watch->events[0] = '\0';
    }
}

static uint64_t read_kills(const struct gsp_exit_watch *watch)
{
    gsp_auto_buf text = {0};
    if (!watch->events[0] || gsp_file_read(watch->events, CGROUP_BYTES_MAX, &text, NULL) < 0)
        return 0;
    return gsp_record__cgroup_counter(text.p, text.len, "oom_kill");
}

/* The name of the command may contain spaces and parentheses: fields are counted after its end. */
static bool parse_exit_code(const char *text, size_t len, int *out)
{
    const char *at = memrchr(text, ')', len);
    struct gsp_sv rest = {at ? at + 1 : NULL, at ? (size_t)(text + len - at - 1) : 0};
    struct gsp_sv word;
    char digits[16];
    int field = 2; /* the empty text between ")" and the first space */
    while (rest.len && gsp_sv_split(&rest, ' ', &word)) {
        if (field++ < STAT_EXIT_CODE)
            continue;
        int64_t v = 0;
        size_t n = 0;
        while (n < word.len && word.p[n] != '\n')
            n++;
        if (n == 0 || n >= sizeof(digits))
            return false;
        memcpy(digits, word.p, n);
        digits[n] = '\0';
        if (gsp_parse_i64(digits, 0, INT_MAX, &v, NULL) < 0)
            return false;
        *out = (int)v;
        return true;
    }
    return false;
}

static bool read_stat_status(struct gsp_exit_watch *watch)
{
    char text[STAT_BYTES_MAX];
    const ssize_t n = watch->stat_fd >= 0 ? pread(watch->stat_fd, text, sizeof(text), 0) : -1;
    const char *at = n > 0 ? memrchr(text, ')', (size_t)n) : NULL;
    /* The field is valid only for a zombie. */
    return at && at + 2 < text + n && (at[2] == 'Z' || at[2] == 'X') &&
           parse_exit_code(text, (size_t)n, &watch->status);
}

static bool read_pidfd_status(struct gsp_exit_watch *watch)
{
    struct pidfd_info_0 info = {.mask = PIDFD_INFO_EXIT_0};
    if (ioctl(watch->pidfd, PIDFD_GET_INFO_0, &info) != 0 || !(info.mask & PIDFD_INFO_EXIT_0))
        return false;
    watch->status = info.exit_code;
    return true;
}

bool gsp_record__exit_watch_wait(const struct gsp_exit_watch *watch, int64_t timeout_ns)
{
    struct pollfd end = {.fd = watch->pidfd, .events = POLLIN};
    const int64_t ms = timeout_ns / GSP_NS_PER_MS;
    return gsp_record__exit_watch_has_exited(watch) ||
           poll(&end, 1, ms > INT_MAX ? INT_MAX : (int)ms) > 0;
}

static void *wait_for_end(void *arg)
{
    struct gsp_exit_watch *watch = arg;
    struct pollfd end = {.fd = watch->pidfd, .events = POLLIN};
    int ready = 0;
    while (ready <= 0 && !atomic_load(&watch->is_closing))
        ready = poll(&end, 1, CLOSE_MS);
    if (ready <= 0)
        return NULL;
    watch->is_known = read_stat_status(watch) || read_pidfd_status(watch);
    atomic_store(&watch->has_ended, true);
    return NULL;
}

bool gsp_record__exit_watch_has_exited(const struct gsp_exit_watch *watch)
{
    return atomic_load(&watch->has_ended);
}

static int start_thread(struct gsp_exit_watch *watch, struct gsp_err *err)
{
    const int failed = gsp_thread_start(&watch->thread, wait_for_end, watch);
    watch->has_thread = failed == 0;
    return failed ? gsp_err_set(err, GSP_E_NOMEM, failed,
                                "cannot start a thread to wait for the process")
                  : GSP_OK;
}

int gsp_record__exit_watch_open(pid_t pid, struct gsp_exit_watch **out, struct gsp_err *err)
{
    char path[64];
    *out = NULL;
    struct gsp_exit_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return gsp_err_nomem(err);
    watch->pid = pid;
    watch->pidfd = gsp_proc_pidfd_open(pid);
    const int sys = errno;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    watch->stat_fd = open(path, O_RDONLY | O_CLOEXEC);
    watch->kmsg_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (watch->kmsg_fd >= 0)
        lseek(watch->kmsg_fd, 0, SEEK_END);
    find_events(watch);
    watch->kills = read_kills(watch);
    int rc = GSP_OK;
    if (watch->pidfd < 0)
        rc = sys == ESRCH
                 ? gsp_err_set(err, GSP_E_NOPROC, sys, "process %d is not running", (int)pid)
                 : gsp_err_set(err, GSP_E_NOTSUP, sys, "cannot wait for process %d: %s", (int)pid,
                               strerror(sys));
    if (rc == GSP_OK)
        rc = start_thread(watch, err);
    if (rc < 0) {
        gsp_record__exit_watch_close(watch);
        return rc;
    }
    *out = watch;
    return GSP_OK;
}

void gsp_record__exit_watch_close(struct gsp_exit_watch *watch)
{
    if (!watch)
        return;
    if (watch->has_thread) {
        atomic_store(&watch->is_closing, true);
        pthread_join(watch->thread, NULL);
    }
    gsp_fd_close(&watch->pidfd);
    gsp_fd_close(&watch->stat_fd);
    gsp_fd_close(&watch->kmsg_fd);
    free(watch);
}

static bool is_in_kmsg(const struct gsp_exit_watch *watch)
{
    char line[8192];
    for (unsigned i = 0; watch->kmsg_fd >= 0 && i < KMSG_LINES_MAX; i++) {
        const ssize_t n = read(watch->kmsg_fd, line, sizeof(line));
        if (n < 0 && errno == EPIPE) /* messages were overwritten; continue with the next */
            continue;
        if (n <= 0)
            return false;
        if (gsp_record__oom_line_is_of(line, (size_t)n, watch->pid))
            return true;
    }
    return false;
}

void gsp_record__exit_info_of_status(int status, bool was_oom, struct gsp_exit_info *out)
{
    *out = (struct gsp_exit_info){
        .signal = GSP_NULL_I64, .exit_status = GSP_NULL_I64, .was_oom = was_oom};
    if (WIFSIGNALED(status)) {
        const int sig = WTERMSIG(status);
        const char *name = sigabbrev_np(sig);
        out->signal = sig;
        snprintf(out->detail, sizeof(out->detail), "was killed by signal %d (SIG%s)%s%s", sig,
                 name ? name : "?", WCOREDUMP(status) ? ", core dumped" : "",
                 was_oom ? ": out of memory" : "");
        return;
    }
    out->exit_status = WEXITSTATUS(status);
    snprintf(out->detail, sizeof(out->detail), "exited with status %d", WEXITSTATUS(status));
}

void gsp_record__exit_watch_get(struct gsp_exit_watch *watch, struct gsp_exit_info *out)
{
    if (watch->has_thread)
        pthread_join(watch->thread, NULL);
    watch->has_thread = false;
    const bool is_kill =
        !watch->is_known || (WIFSIGNALED(watch->status) && WTERMSIG(watch->status) == SIGKILL);
    const bool was_oom = is_kill && (is_in_kmsg(watch) || read_kills(watch) > watch->kills);
    if (watch->is_known) {
        gsp_record__exit_info_of_status(watch->status, was_oom, out);
        return;
    }
    *out = (struct gsp_exit_info){
        .signal = GSP_NULL_I64, .exit_status = GSP_NULL_I64, .was_oom = was_oom};
    snprintf(out->detail, sizeof(out->detail), "%s",
             was_oom ? "was killed by the kernel: out of memory" : "exited (status unknown)");
}

/* Returns the index of a column; -1 if the ring has none with that name and type. */
static int column_of(const struct gsp_ring_info *info, const char *name, enum gsp_type type)
{
    for (uint32_t i = 0; i < info->column_count; i++)
        if (strcmp(info->columns[i].name, name) == 0 && info->columns[i].type == (uint32_t)type)
            return (int)i;
    return -1;
}

static bool read_last_event(struct gsp_ring_view *view, struct gsp_exit_info *out)
{
    struct gsp_ring_range span;
    const struct gsp_ring_info *info = gsp_ring_info(view);
    const int kind = column_of(info, "kind", GSP_STR);
    const int sig = column_of(info, "signal", GSP_I64);
    const int status = column_of(info, "exit_status", GSP_I64);
    const int detail = column_of(info, "detail", GSP_TEXT);
    uint32_t id = 0;
    uint64_t ref = 0;
    bool is_null = true;
    gsp_auto_buf text = {0};
    if (kind < 0 || sig < 0 || status < 0 || detail < 0 ||
        gsp_ring_ranges(view, &span, 1, NULL) != 1 || span.to == span.from)
        return false;
    const uint64_t row = span.to - 1;
    gsp_ring_copy(view, span.lane, (uint32_t)kind, row, 1, &id);
    gsp_ring_copy(view, span.lane, (uint32_t)sig, row, 1, &out->signal);
    gsp_ring_copy(view, span.lane, (uint32_t)status, row, 1, &out->exit_status);
    gsp_ring_copy(view, span.lane, (uint32_t)detail, row, 1, &ref);
    if (gsp_ring_text_read(view, span.lane, ref, &text, &is_null) && text.len)
        snprintf(out->detail, sizeof(out->detail), "%.*s", (int)text.len, text.p);
    char name[8];
    return gsp_ring_string_read(view, id, name, sizeof(name)) == 3 && strcmp(name, "end") == 0;
}

bool gsp_record_exit_info_read(int folder_fd, struct gsp_exit_info *out)
{
    struct gsp_ring_view *view = NULL;
    *out = (struct gsp_exit_info){.signal = GSP_NULL_I64, .exit_status = GSP_NULL_I64};
    if (gsp_ring_open(folder_fd, "process.event.ring", &view, NULL) < 0)
        return false;
    const bool has_end = read_last_event(view, out);
    gsp_ring_view_close(view);
    return has_end;
}
