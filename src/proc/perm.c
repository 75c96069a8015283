/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/perm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"

/* Bits of CapEff (linux/capability.h). */
#define CAP_BIT_SYS_PTRACE 19U
#define CAP_BIT_SYS_ADMIN  21U
#define CAP_BIT_PERFMON    38U
#define CAP_BIT_BPF        39U

/* Longer files of /proc count as unreadable. */
#define TEXT_MAX           65536U
/* Longest chain of parents; a longer one is a loop. */
#define ANCESTORS_MAX      128

/* Reads root/path as NUL-terminated text. Returns false if it is not readable. */
static bool read_text(const char *root, const char *path, struct gsp_buf *out)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof(full), "%s%s", root, path);
    gsp_buf_clear(out);
    if (n < 0 || (size_t)n >= sizeof(full))
        return false;
    return gsp_file_read(full, TEXT_MAX, out, NULL) == GSP_OK && gsp_buf_cstr(out) != NULL;
}

static bool file_exists(const char *root, const char *path)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof(full), "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof(full) && access(full, F_OK) == 0;
}

/* Returns the text after "key" at the start of a line, blanks skipped, or NULL. */
static const char *field(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0)
            return line + len + strspn(line + len, " \t");
    }
    return NULL;
}

static int64_t field_number(const char *text, const char *key, int base, int64_t fallback)
{
    const char *at = field(text, key);
    if (!at)
        return fallback;
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(at, &end, base);
    return end == at || errno ? fallback : (int64_t)value;
}

/* The index-th blank-separated number of a line such as "Uid: 1000 0 0 0". */
static int64_t field_nth(const char *text, const char *key, unsigned index, int64_t fallback)
{
    const char *at = field(text, key);
    for (unsigned i = 0; at; i++) {
        char *end = NULL;
        long long value = strtoll(at, &end, 10);
        if (end == at)
            break;
        if (i == index)
            return value;
        at = end + strspn(end, " \t");
        if (*at == '\n')
            break;
    }
    return fallback;
}

static unsigned field_count(const char *text, const char *key)
{
    unsigned count = 0;
    while (field_nth(text, key, count, -1) >= 0)
        count++;
    return count;
}

static int read_int(const char *root, const char *path, int fallback)
{
    gsp_auto_buf text = {0};
    if (!read_text(root, path, &text))
        return fallback;
    char *end = NULL;
    const char *start = gsp_buf_cstr(&text);
    long value = strtol(start, &end, 10);
    return end == start || value < INT_MIN || value > INT_MAX ? fallback : (int)value;
}

/* Recognizes the name of a container engine in a text. */
static enum gsp_container container_of_text(const char *text)
{
    static const struct {
        const char *mark;
        enum gsp_container kind;
    } marks[] = {
        {"kubepods", GSP_CONTAINER_KUBERNETES},
        {"libpod", GSP_CONTAINER_PODMAN},
        {"podman", GSP_CONTAINER_PODMAN},
        {"docker", GSP_CONTAINER_DOCKER},
        {"lxc", GSP_CONTAINER_LXC},
        {"containerd", GSP_CONTAINER_OTHER},
        {"systemd-nspawn", GSP_CONTAINER_OTHER},
    };
    for (size_t i = 0; i < GSP_COUNT(marks); i++)
        if (strstr(text, marks[i].mark))
            return marks[i].kind;
    return GSP_CONTAINER_NONE;
}

static enum gsp_container detect_container(const char *root)
{
    gsp_auto_buf text = {0};
    /* A pod is also a docker or containerd container, so check for pods first. */
    if (file_exists(root, "/var/run/secrets/kubernetes.io"))
        return GSP_CONTAINER_KUBERNETES;
    if (file_exists(root, "/.dockerenv"))
        return GSP_CONTAINER_DOCKER;
    if (file_exists(root, "/run/.containerenv"))
        return GSP_CONTAINER_PODMAN;
    if (read_text(root, "/run/systemd/container", &text)) {
        enum gsp_container kind = container_of_text(gsp_buf_cstr(&text));
        return kind == GSP_CONTAINER_NONE ? GSP_CONTAINER_OTHER : kind;
    }
    if (read_text(root, "/proc/self/cgroup", &text))
        return container_of_text(gsp_buf_cstr(&text));
    return GSP_CONTAINER_NONE;
}

/* The initial user namespace maps every id to itself. */
static enum gsp_answer detect_user_ns(const char *root)
{
    gsp_auto_buf text = {0};
    if (!read_text(root, "/proc/self/uid_map", &text))
        return GSP_ANSWER_UNKNOWN;
    unsigned long inside = 0;
    unsigned long outside = 0;
    unsigned long count = 0;
    char *at = NULL;
    inside = strtoul(gsp_buf_cstr(&text), &at, 10);
    outside = strtoul(at, &at, 10);
    count = strtoul(at, &at, 10);
    bool all = inside == 0 && outside == 0 && count == UINT32_MAX;
    return all ? GSP_ANSWER_NO : GSP_ANSWER_YES;
}

static void read_self(const char *root, struct gsp_perm *out, unsigned *pid_levels)
{
    gsp_auto_buf text = {0};
    out->yama_scope = read_int(root, "/proc/sys/kernel/yama/ptrace_scope", -1);
    out->perf_paranoid =
        read_int(root, "/proc/sys/kernel/perf_event_paranoid", GSP_PERM_NO_PARANOID);
    out->container = detect_container(root);
    out->in_user_ns = detect_user_ns(root);
    if (!read_text(root, "/proc/self/status", &text))
        return;
    const char *status = gsp_buf_cstr(&text);
    out->euid = field_nth(status, "Uid:", 1, -1);
    out->seccomp = (int)field_number(status, "Seccomp:", 10, -1);
    out->caps = (uint64_t)field_number(status, "CapEff:", 16, 0);
    out->sys_ptrace = (out->caps >> CAP_BIT_SYS_PTRACE) & 1U;
    out->sys_admin = (out->caps >> CAP_BIT_SYS_ADMIN) & 1U;
    out->perfmon = (out->caps >> CAP_BIT_PERFMON) & 1U;
    out->bpf = (out->caps >> CAP_BIT_BPF) & 1U;
    *pid_levels = field_count(status, "NSpid:");
    /* Inside a namespace NSpid may omit the outer levels, so a single entry proves nothing. But
     * pid 2, kthreadd, exists only in the initial namespace. */
    bool has_kthreadd = read_text(root, "/proc/2/comm", &text) &&
                        strncmp(gsp_buf_cstr(&text), "kthreadd", strlen("kthreadd")) == 0;
    out->in_pid_ns = *pid_levels <= 1 && has_kthreadd ? GSP_ANSWER_NO : GSP_ANSWER_YES;
}

static int64_t parent_of(const char *root, int64_t pid)
{
    gsp_auto_buf text = {0};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/status", (long long)pid);
    return read_text(root, path, &text) ? field_number(gsp_buf_cstr(&text), "PPid:", 10, -1) : -1;
}

static enum gsp_answer detect_descendant(const char *root, int64_t self, int64_t parent)
{
    if (self <= 0 || parent < 0)
        return GSP_ANSWER_UNKNOWN;
    for (int i = 0; i < ANCESTORS_MAX && parent > 0; i++) {
        if (parent == self)
            return GSP_ANSWER_YES;
        parent = parent_of(root, parent);
    }
    return GSP_ANSWER_NO;
}

static void read_target(const char *root, struct gsp_perm *out, unsigned pid_levels)
{
    gsp_auto_buf text = {0};
    gsp_auto_buf self = {0};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)out->pid);
    out->exists = read_text(root, path, &text);
    if (!out->exists)
        return;
    const char *status = gsp_buf_cstr(&text);
    out->target_uid = field_nth(status, "Uid:", 0, -1);
    out->tracer = (pid_t)field_number(status, "TracerPid:", 10, 0);
    const char *state = field(status, "State:");
    out->state = state ? *state : '\0';
    unsigned levels = field_count(status, "NSpid:");
    if (levels && pid_levels)
        out->same_pid_ns = levels == pid_levels ? GSP_ANSWER_YES : GSP_ANSWER_NO;
    if (read_text(root, "/proc/self/status", &self))
        out->is_descendant =
            detect_descendant(root, field_number(gsp_buf_cstr(&self), "Pid:", 10, -1),
                              field_number(status, "PPid:", 10, -1));

    /* Root owns the /proc files of a process that is not dumpable. */
    char full[PATH_MAX];
    struct stat info;
    int n = snprintf(full, sizeof(full), "%s%s", root, path);
    int64_t target_euid = field_nth(status, "Uid:", 1, -1);
    if (n > 0 && (size_t)n < sizeof(full) && target_euid > 0 && stat(full, &info) == 0)
        out->is_dumpable = (int64_t)info.st_uid == target_euid ? GSP_ANSWER_YES : GSP_ANSWER_NO;
}

void gsp_proc_perm_read(const char *root, pid_t pid, struct gsp_perm *out)
{
    *out = (struct gsp_perm){.euid = -1,
                             .yama_scope = -1,
                             .seccomp = -1,
                             .perf_paranoid = GSP_PERM_NO_PARANOID,
                             .pid = pid,
                             .target_uid = -1};
    unsigned pid_levels = 0;
    read_self(root, out, &pid_levels);
    if (pid > 0)
        read_target(root, out, pid_levels);
}

const char *gsp_proc_container_name(enum gsp_container container)
{
    static const char *const names[] = {
        [GSP_CONTAINER_NONE] = "none",     [GSP_CONTAINER_DOCKER] = "docker",
        [GSP_CONTAINER_PODMAN] = "podman", [GSP_CONTAINER_KUBERNETES] = "kubernetes",
        [GSP_CONTAINER_LXC] = "lxc",       [GSP_CONTAINER_OTHER] = "other",
    };
    return (size_t)container < GSP_COUNT(names) ? names[container] : "other";
}

int gsp_proc_perm_check(pid_t pid, struct gsp_err *err)
{
    char path[64];
    /* Opening this file requires the same permission as process_vm_readv(). */
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return GSP_OK;
    if (errno == EACCES || errno == EPERM)
        return gsp_err_set(err, GSP_E_PERM, errno, "not permitted to read process %d", (int)pid);
    if (errno == ENOENT || errno == ESRCH)
        return gsp_err_set(err, GSP_E_NOPROC, errno, "process %d does not exist", (int)pid);
    return gsp_err_set(err, GSP_E_IO, errno, "cannot open %s: %s", path, strerror(errno));
}

/* The child changes its copy and reports that before the parent reads it: a parent that read itself
 * by mistake would get the old value. */
static uint64_t selftest_word = 0;

static void selftest_child(int ready_fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    selftest_word = 0x5ca1ab1eU;
    char byte = 'y';
    __asm__ volatile("" : : "r"(&selftest_word) : "memory"); /* keeps the store */
    if (write(ready_fd, &byte, 1) == 1)
        pause();
    _exit(0);
}

static int selftest_read(pid_t child, int ready_fd, struct gsp_err *err)
{
    char byte = 0;
    if (read(ready_fd, &byte, 1) != 1)
        return gsp_err_set(err, GSP_E_IO, errno, "the test child did not start");
    uint64_t copy = 0;
    struct iovec local = {&copy, sizeof(copy)};
    struct iovec remote = {&selftest_word, sizeof(copy)};
    ssize_t n = process_vm_readv(child, &local, 1, &remote, 1, 0);
    if (n < 0 && errno == ENOSYS)
        return gsp_err_set(err, GSP_E_NOTSUP, errno, "this kernel has no process_vm_readv");
    if (n < 0)
        return gsp_err_set(err, GSP_E_PERM, errno, "cannot read a child process: %s",
                           strerror(errno));
    if (n != (ssize_t)sizeof(copy) || copy != 0x5ca1ab1eU)
        return gsp_err_set(err, GSP_E_IO, 0, "reading a child process returned wrong bytes");
    return GSP_OK;
}

int gsp_proc_perm_selftest(struct gsp_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot create a pipe: %s", strerror(errno));
    gsp_auto_fd ready_fd = ends[0];
    pid_t child = fork();
    if (child == 0)
        selftest_child(ends[1]);
    close(ends[1]);
    if (child < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot fork: %s", strerror(errno));
    int rc = selftest_read(child, ready_fd, err);
    if (kill(child, SIGKILL) == 0)
        waitpid(child, NULL, 0);
    return rc;
}
