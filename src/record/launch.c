/* SPDX-License-Identifier: Apache-2.0 */
#include "record/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"

/* Signals whose disposition gsprof changes. A program inherits ignored signals but not handlers; a
 * handler of ours would hide that a signal was ignored. */
static const int CHANGED[] = {SIGPIPE, SIGXFSZ, SIGCHLD, SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT};

static struct {
    bool is_known;
    sigset_t mask;
    struct sigaction actions[GSP_COUNT(CHANGED)];
} original; /* signal settings of this process */

static bool parse_id_env(const char *name, int64_t *out)
{
    const char *text = getenv(name);
    return text && gsp_parse_i64(text, 0, UINT32_MAX - 1, out, NULL) == GSP_OK;
}

bool gsp_record__launch_sudo_caller(uid_t *uid, gid_t *gid)
{
    int64_t user = 0;
    int64_t group = 0;
    if (geteuid() != 0 || !parse_id_env("SUDO_UID", &user) || !parse_id_env("SUDO_GID", &group) ||
        user == 0)
        return false;
    *uid = (uid_t)user;
    *gid = (gid_t)group;
    return true;
}

uid_t gsp_record_launch_user(void)
{
    uid_t uid = 0;
    gid_t gid = 0;
    return gsp_record__launch_sudo_caller(&uid, &gid) ? uid : geteuid();
}

/* Drops root permanently. Returns 0 or an errno. */
static int become_caller(void)
{
    uid_t uid = 0;
    gid_t gid = 0;
    if (!gsp_record__launch_sudo_caller(&uid, &gid))
        return 0;
    const struct passwd *user = getpwuid(uid);
    int rc = user ? initgroups(user->pw_name, gid) : setgroups(1, &gid);
    if (rc < 0 || setgid(gid) < 0 || setuid(uid) < 0)
        return errno ? errno : EPERM;
    if (user) {
        setenv("HOME", user->pw_dir, 1);
        setenv("USER", user->pw_name, 1);
        setenv("LOGNAME", user->pw_name, 1);
    }
    return 0;
}

static void restore_signals(void)
{
    if (!original.is_known)
        return;
    for (size_t i = 0; i < GSP_COUNT(CHANGED); i++)
        sigaction(CHANGED[i], &original.actions[i], NULL);
    sigprocmask(SIG_SETMASK, &original.mask, NULL);
}

/* Returns only on failure, with an errno. */
static int execute(char *const *argv)
{
    const int failed = become_caller();
    if (failed)
        return failed;
    restore_signals();
    execvp(argv[0], argv);
    return errno;
}

static int cannot_start(const char *program, int sys, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOEXEC, sys, "cannot start %.160s: %s", program, strerror(sys));
}

/* Returns 0 or an errno. Returns 0 also if permission is denied: the program may run as another
 * user. */
static int check_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return errno == EACCES ? 0 : errno;
    return S_ISREG(info.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

/* Searches like execvp(). Returns EACCES only if no folder has an executable file. */
static int check_path(const char *program, const char *folders)
{
    int found = ENOENT;
    for (const char *at = folders; at && found;) {
        const size_t len = strcspn(at, ":");
        gsp_auto_buf path = {0};
        gsp_buf_printf(&path, "%.*s%s%s", (int)len, at, len ? "/" : "", program);
        const char *text = gsp_buf_cstr(&path);
        const int sys = text ? check_file(text) : 0;
        found = sys == 0 || sys == EACCES ? sys : found;
        at = at[len] ? at + len + 1 : NULL;
    }
    return found;
}

int gsp_record_launch_check(const char *program, struct gsp_err *err)
{
    const char *folders = getenv("PATH");
    int sys = 0;
    if (strchr(program, '/'))
        sys = check_file(program);
    else if (folders)
        sys = check_path(program, folders);
    return sys ? cannot_start(program, sys, err) : GSP_OK;
}

static void run_child(char *const *argv, int gate, int report)
{
    char go = 0;
    ssize_t n = 0;
    do
        n = read(gate, &go, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(127); /* the parent exited or called gsp_record_launch_abort() */
    const int failed = execute(argv);
    const ssize_t n_written = write(report, &failed, sizeof(failed));
    _exit(n_written < 0 ? 126 : 127);
}

int gsp_record_launch_new(struct gsp_launch *launch, char *const *argv, struct gsp_err *err)
{
    *launch = (struct gsp_launch){.gate = -1, .report = -1};
    int gate[2];
    int report[2];
    if (pipe2(gate, O_CLOEXEC) < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(report, O_CLOEXEC) < 0) {
        close(gate[0]);
        close(gate[1]);
        return gsp_err_set(err, GSP_E_IO, errno, "cannot make a pipe: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(gate[1]); /* so that the child sees the end of file */
        run_child(argv, gate[0], report[1]);
    }
    close(gate[0]);
    close(report[1]);
    launch->gate = gate[1];
    launch->report = report[0];
    if (pid < 0) {
        gsp_record_launch_abort(launch);
        return gsp_err_set(err, GSP_E_IO, errno, "cannot fork: %s", strerror(errno));
    }
    launch->pid = pid;
    return GSP_OK;
}

static void close_end(int *fd)
{
    gsp_fd_close(fd);
    *fd = -1;
}

int gsp_record_launch_go(struct gsp_launch *launch, const char *program, struct gsp_err *err)
{
    char go = 'g';
    int failed = 0;
    if (write(launch->gate, &go, 1) != 1)
        failed = EPIPE;
    close_end(&launch->gate);
    /* A successful exec closes the write end. */
    ssize_t n = 0;
    do
        n = failed ? 0 : read(launch->report, &failed, sizeof(failed));
    while (n < 0 && errno == EINTR);
    close_end(&launch->report);
    if (!failed)
        return GSP_OK;
    gsp_record_launch_wait(launch);
    return cannot_start(program, failed, err);
}

int gsp_record_launch_exec(char *const *argv, struct gsp_err *err)
{
    return cannot_start(argv[0], execute(argv), err);
}

bool gsp_record_launch_is_running(const struct gsp_launch *launch)
{
    siginfo_t info = {0};
    if (launch->pid <= 0)
        return false;
    /* WNOWAIT leaves the status for gsp_record_launch_wait(). */
    int rc = waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return rc == 0 && info.si_pid == 0;
}

int gsp_record_launch_stop_signal(const struct gsp_launch *launch)
{
    siginfo_t info = {0};
    if (launch->pid <= 0 || waitid(P_PID, (id_t)launch->pid, &info, WSTOPPED | WNOHANG) != 0 ||
        info.si_pid == 0)
        return 0;
    return info.si_status;
}

int gsp_record_launch_wait(struct gsp_launch *launch)
{
    int status = 0;
    pid_t rc = 0;
    if (launch->pid <= 0)
        return 0;
    do
        rc = waitpid(launch->pid, &status, 0);
    while (rc < 0 && errno == EINTR);
    launch->pid = 0;
    if (rc < 0)
        return 0;
    launch->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return launch->signal ? 128 + launch->signal : WEXITSTATUS(status);
}

static bool is_inherited(int fd)
{
    const int flags = fcntl(fd, F_GETFD);
    return fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC);
}

void gsp_record_launch_drop_descriptors(void)
{
    gsp_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return;
    gsp_ignore(dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0);
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;
    int64_t fd = 0;
    while (folder && (entry = readdir(folder)) != NULL)
        if (gsp_parse_i64(entry->d_name, 0, INT32_MAX, &fd, NULL) == GSP_OK &&
            is_inherited((int)fd))
            close((int)fd);
    if (folder)
        closedir(folder);
}

void gsp_record_launch_abort(struct gsp_launch *launch)
{
    if (launch->gate < 0)
        return;
    close_end(&launch->gate);
    close_end(&launch->report);
    gsp_record_launch_wait(launch);
}

pid_t gsp_record_background_fork(int *fd, struct gsp_err *err)
{
    int ends[2] = {-1, -1};
    pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (child < 0) {
        const int sys = errno;
        gsp_fd_close(&ends[0]);
        gsp_fd_close(&ends[1]);
        return gsp_err_set(err, GSP_E_IO, sys, "cannot start in the background: %s", strerror(sys));
    }
    const int own = child == 0 ? 1 : 0;
    close(ends[1 - own]);
    *fd = ends[own];
    if (child == 0)
        setsid();
    return child;
}

int gsp_record_background_status(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status)
                                                    : gsp_err_exit_status(GSP_E_IO);
}

static void save_signals(void)
{
    for (size_t i = 0; i < GSP_COUNT(CHANGED); i++)
        sigaction(CHANGED[i], NULL, &original.actions[i]);
    sigprocmask(SIG_BLOCK, NULL, &original.mask);
    original.is_known = true;
}

void gsp_record__signals_block(const sigset_t *signals)
{
    save_signals();
    sigprocmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* with SIG_IGN, children leave no status */
}

void gsp_record_signals_catch(const int *signals, size_t count,
                              void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | flags};
    action.sa_sigaction = handler;
    sigemptyset(&action.sa_mask);
    save_signals();
    for (size_t i = 0; i < count; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}
