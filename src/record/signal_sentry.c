/* SPDX-License-Identifier: Apache-2.0 */
#include "record/signal_sentry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "base/time.h"

/* Does not contain "gsprof", so that `pkill gsprof` does not reach the sentry. */
#define TITLE       "gsp-sentry"
#define WATCH_MS    20
/* Without an answer in this time, signals are passed on as if there were no sentry. */
#define ANSWER_NS   (2 * GSP_NS_PER_S)
#define POLL_MS     20
#define END_POLL_NS (200 * INT64_C(1000))
/* Bytes of /proc/PID/status. */
#define STATUS_MAX  16384U

enum request_kind { QUERY, WATCH, AWAKE };

struct request {
    enum request_kind kind;
    uint32_t number; /* of the query */
    pid_t pid;       /* to watch */
};

struct answer {
    uint32_t number;
    struct gsp_signal_counts counts;
};

/* ------------------------------------------------------------------------------ the sentry */

static void close_all_but(int kept)
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        _exit(1);
    int64_t fd = 0;
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL)
        if (gsp_parse_i64(entry->d_name, 0, INT32_MAX, &fd, NULL) == GSP_OK && fd != kept &&
            fd != dirfd(folder))
            close((int)fd);
    closedir(folder);
}

/* Returns the end of words that follow each other in memory, as the kernel stores them; else NULL.
 */
static char *end_of(char *const *words)
{
    char *end = words[0];
    for (size_t i = 0; words[i]; i++) {
        if (words[i] != end)
            return NULL;
        end += strlen(words[i]) + 1;
    }
    return end;
}

/* Overwrites our command line with the title and the program's words. */
static void set_title(char *const *argv, char *const *words)
{
    char *begin = argv[0];
    char *end = end_of(argv);
    char *from = words[0];
    prctl(PR_SET_NAME, TITLE, 0UL, 0UL, 0UL);
    if (!end || from < begin + sizeof(TITLE) || from >= end)
        return;
    const size_t len = (size_t)(end - from);
    memmove(begin + sizeof(TITLE), from, len);
    memcpy(begin, TITLE, sizeof(TITLE));
    memset(begin + sizeof(TITLE) + len, 0, (size_t)(end - begin) - sizeof(TITLE) - len);
}

/* Counts pending signals, except each SIGCONT from continue_sentry(): a stop signal may discard it
 * before it is counted, so the parent cannot subtract it. */
static void count_pending(pid_t parent, struct gsp_signal_counts *counts)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t all;
    int sig = 0;
    sigfillset(&all);
    while ((sig = sigtimedwait(&all, &info, &now)) > 0) {
        const bool is_from_parent =
            sig == SIGCONT && info.si_code == SI_USER && info.si_pid == parent;
        if ((size_t)sig < GSP_SIGNAL_COUNT && !is_from_parent)
            counts->of[sig]++;
    }
}

bool gsp_record__process_is_stopped(pid_t pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

/* Whether a process has a pending SIGSTOP. */
static bool has_stop_pending(pid_t pid)
{
    char path[64];
    gsp_auto_buf text = {0};
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (gsp_file_read(path, STATUS_MAX, &text, NULL) < 0 || !gsp_buf_cstr(&text))
        return false;
    const char *pending = strstr(text.p, "\nShdPnd:");
    return pending && (strtoull(pending + sizeof("\nShdPnd:") - 1, NULL, 16) >> (SIGSTOP - 1) & 1);
}

bool gsp_record__group_is_stopping(const struct gsp_signal_sentry *sentry)
{
    /* In this order: a process with a pending SIGSTOP becomes a stopped one. */
    return has_stop_pending(getpid()) ||
           (sentry->pid > 0 &&
            (has_stop_pending(sentry->pid) || gsp_record__process_is_stopped(sentry->pid)));
}

static _Noreturn void serve(int fd, pid_t parent)
{
    struct answer answer = {0};
    pid_t watched = 0;
    sigset_t all;
    sigfillset(&all);
    const int signals_fd = signalfd(-1, &all, SFD_CLOEXEC);
    if (signals_fd < 0)
        _exit(1);
    for (;;) {
        struct request request;
        struct pollfd ready[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = signals_fd, .events = POLLIN}};
        const int count = poll(ready, GSP_COUNT(ready), watched ? WATCH_MS : -1);
        /* At once: a signal is lost while another one of the same number is pending. */
        count_pending(parent, &answer.counts);
        if (count == 0 && !gsp_record__process_is_stopped(watched))
            kill(parent, SIGCONT);
        if (count <= 0 || !ready[0].revents)
            continue;
        if (recv(fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request))
            _exit(0);
        if (request.kind != QUERY) {
            watched = request.kind == WATCH ? request.pid : 0;
            continue;
        }
        answer.number = request.number;
        if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            _exit(0);
    }
}

static _Noreturn void run_sentry(int fd, pid_t parent, char *const *argv, char *const *words)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != parent)
        _exit(0);
    close_all_but(fd);
    gsp_ignore(chdir("/") < 0); /* so that the current folder can be unmounted */
    set_title(argv, words);
    serve(fd, parent);
}

/* ------------------------------------------------------------------------------------ gsprof */

int gsp_record__signal_sentry_start(struct gsp_signal_sentry *sentry, char *const *argv,
                                    char *const *words, struct gsp_err *err)
{
    int ends[2] = {-1, -1};
    const pid_t parent = getpid();
    const pid_t pid =
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 ? fork() : -1;
    if (pid < 0) {
        const int sys = errno;
        gsp_fd_close(&ends[0]);
        gsp_fd_close(&ends[1]);
        return gsp_err_set(err, GSP_E_IO, sys, "cannot start the sentry: %s", strerror(sys));
    }
    if (pid == 0)
        run_sentry(ends[1], parent, argv, words);
    close(ends[1]);
    sentry->pid = pid;
    sentry->fd = ends[0];
    return GSP_OK;
}

static bool send_request(struct gsp_signal_sentry *sentry, const struct request *request)
{
    return sentry->fd >= 0 && !atomic_load(&sentry->lost) &&
           send(sentry->fd, request, sizeof(*request), MSG_NOSIGNAL) == (ssize_t)sizeof(*request);
}

/* Continues a stopped sentry: SIGSTOP stops it, too, and a SIGCONT to gsprof alone leaves it
 * stopped. Not called at once: while our SIGCONT is pending, one to the group would not be counted.
 * Does nothing if gsprof is about to stop together with the sentry: the sentry has to count the
 * SIGCONT that continues both. */
static void continue_sentry(struct gsp_signal_sentry *sentry)
{
    siginfo_t info = {0};
    sigset_t pending;
    if (waitid(P_PID, (id_t)sentry->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0 || has_stop_pending(getpid()))
        return;
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1)
        atomic_fetch_add(&sentry->left_behind, 1);
    kill(sentry->pid, SIGCONT);
}

static bool query(struct gsp_signal_sentry *sentry, struct gsp_signal_counts *out)
{
    const struct request request = {.kind = QUERY, .number = ++sentry->asked};
    const int64_t until_ns = gsp_now_ns() + ANSWER_NS;
    struct answer answer = {0};
    if (!send_request(sentry, &request))
        return false;
    while (gsp_now_ns() < until_ns) {
        struct pollfd ready = {.fd = sentry->fd, .events = POLLIN};
        if (poll(&ready, 1, POLL_MS) <= 0) {
            continue_sentry(sentry);
            continue;
        }
        if (recv(sentry->fd, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer))
            break;
        /* A late answer to an earlier query. */
        if (answer.number != request.number)
            continue;
        *out = answer.counts;
        return true;
    }
    atomic_store(&sentry->lost, true);
    return false;
}

bool gsp_record__signal_sentry_query(struct gsp_signal_sentry *sentry,
                                     struct gsp_signal_counts *out)
{
    gsp_lock_take(&sentry->lock);
    const bool has_answer = query(sentry, out);
    gsp_lock_release(&sentry->lock);
    return has_answer;
}

void gsp_record__signal_sentry_watch(struct gsp_signal_sentry *sentry, pid_t pid)
{
    gsp_ignore(send_request(sentry, &(struct request){.kind = WATCH, .pid = pid}));
}

void gsp_record__signal_sentry_unwatch(struct gsp_signal_sentry *sentry)
{
    gsp_ignore(send_request(sentry, &(struct request){.kind = AWAKE}));
}

/* Limited, in case the sentry could not be killed: it also ends with gsprof. */
static void wait_for_end(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = END_POLL_NS};
    const int64_t until_ns = gsp_now_ns() + ANSWER_NS;
    for (;;) {
        const pid_t ended = waitpid(pid, NULL, WNOHANG);
        if (ended != 0 && !(ended < 0 && errno == EINTR))
            return;
        if (gsp_now_ns() >= until_ns)
            return;
        nanosleep(&pause, NULL);
    }
}

void gsp_record__signal_sentry_end(struct gsp_signal_sentry *sentry)
{
    gsp_lock_take(&sentry->lock);
    gsp_fd_close(&sentry->fd); /* the sentry then ends by itself, unless it is stopped */
    if (sentry->pid > 0) {
        kill(sentry->pid, SIGKILL);
        wait_for_end(sentry->pid);
    }
    sentry->pid = 0;
    sentry->fd = -1;
    gsp_lock_release(&sentry->lock);
}
