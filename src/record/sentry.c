/* SPDX-License-Identifier: Apache-2.0 */
#include "record/sentry.h"

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

/* Without the name of our program: `pkill gsprof` is for us alone. */
#define TITLE      "gsp-sentry"
#define ROUSE_MS   20
/* A machine under load answers late; then a signal is passed on as if there were no sentry. */
#define ANSWER_NS  (2 * GSP_NS_PER_S)
#define LOOK_MS    20
/* Bytes of /proc/PID/status. */
#define STATUS_MAX 16384U

enum request_kind { ASK, WATCH, AWAKE };

struct request {
    enum request_kind kind;
    uint32_t number; /* of the question */
    pid_t pid;       /* to watch */
};

struct answer {
    uint32_t number;
    struct gsp_sentry_counts counts;
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

/* The end of words that lie one behind the other, as the kernel puts them; NULL if they do not. */
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

/* Writes the title and the program's words over our command line. */
static void rename_self(char *const *argv, char *const *words)
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

/* All but those that our master sends to rouse us: a stop signal may take one of them away before
 * it is counted, so the master cannot subtract them. */
static void count_pending(pid_t master, struct gsp_sentry_counts *counts)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t all;
    int sig = 0;
    sigfillset(&all);
    while ((sig = sigtimedwait(&all, &info, &now)) > 0) {
        const bool is_rousing = sig == SIGCONT && info.si_code == SI_USER && info.si_pid == master;
        if ((size_t)sig < GSP_SENTRY_SIGNALS && !is_rousing)
            counts->of[sig]++;
    }
}

bool gsp_sentry_is_stopped(pid_t pid)
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

/* Whether a SIGSTOP waits for a process to get a CPU. */
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

bool gsp_sentry_stops(const struct gsp_sentry *sentry)
{
    /* In this order: one that waits becomes the other. */
    return has_stop_pending(getpid()) || (sentry->pid > 0 && (has_stop_pending(sentry->pid) ||
                                                              gsp_sentry_is_stopped(sentry->pid)));
}

static _Noreturn void stand(int fd, pid_t master)
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
        struct pollfd asked[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = signals_fd, .events = POLLIN}};
        const int ready = poll(asked, GSP_COUNT(asked), watched ? ROUSE_MS : -1);
        /* At once: one that comes while its like is pending is lost. */
        count_pending(master, &answer.counts);
        if (ready == 0 && !gsp_sentry_is_stopped(watched))
            kill(master, SIGCONT);
        if (ready <= 0 || !asked[0].revents)
            continue;
        if (recv(fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request))
            _exit(0);
        if (request.kind != ASK) {
            watched = request.kind == WATCH ? request.pid : 0;
            continue;
        }
        answer.number = request.number;
        if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            _exit(0);
    }
}

static _Noreturn void run_sentry(int fd, pid_t master, char *const *argv, char *const *words)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != master)
        _exit(0);
    close_all_but(fd);
    gsp_ignore(chdir("/") < 0); /* the folder we were started in may be unmounted */
    rename_self(argv, words);
    stand(fd, master);
}

/* --------------------------------------------------------------------------------- our side */

int gsp_sentry_start(struct gsp_sentry *sentry, char *const *argv, char *const *words,
                     struct gsp_err *err)
{
    int ends[2] = {-1, -1};
    const pid_t master = getpid();
    const pid_t pid =
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 ? fork() : -1;
    if (pid < 0) {
        const int sys = errno;
        gsp_fd_close(&ends[0]);
        gsp_fd_close(&ends[1]);
        return gsp_err_set(err, GSP_E_IO, sys, "cannot start a sentry: %s", strerror(sys));
    }
    if (pid == 0)
        run_sentry(ends[1], master, argv, words);
    close(ends[1]);
    sentry->pid = pid;
    sentry->fd = ends[0];
    return GSP_OK;
}

static bool tell(struct gsp_sentry *sentry, const struct request *request)
{
    return sentry->fd >= 0 && !atomic_load(&sentry->lost) &&
           send(sentry->fd, request, sizeof(*request), MSG_NOSIGNAL) == (ssize_t)sizeof(*request);
}

/* SIGSTOP stops the sentry too; a SIGCONT to us alone leaves it stopped.  Not at once: one to the
 * group that comes while ours is pending would not be counted.  Not when we are about to stop with
 * the sentry: it has to count the SIGCONT that wakes both. */
static void rouse(struct gsp_sentry *sentry)
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

static bool ask(struct gsp_sentry *sentry, struct gsp_sentry_counts *out)
{
    const struct request request = {.kind = ASK, .number = ++sentry->asked};
    const int64_t until_ns = gsp_now_ns() + ANSWER_NS;
    struct answer answer = {0};
    if (!tell(sentry, &request))
        return false;
    while (gsp_now_ns() < until_ns) {
        struct pollfd heard = {.fd = sentry->fd, .events = POLLIN};
        if (poll(&heard, 1, LOOK_MS) <= 0) {
            rouse(sentry);
            continue;
        }
        if (recv(sentry->fd, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer))
            break;
        /* Answers that came too late are for questions of before. */
        if (answer.number != request.number)
            continue;
        *out = answer.counts;
        return true;
    }
    atomic_store(&sentry->lost, true);
    return false;
}

bool gsp_sentry_ask(struct gsp_sentry *sentry, struct gsp_sentry_counts *out)
{
    pthread_mutex_lock(&sentry->lock);
    const bool has_answer = ask(sentry, out);
    pthread_mutex_unlock(&sentry->lock);
    return has_answer;
}

void gsp_sentry_watch(struct gsp_sentry *sentry, pid_t pid)
{
    gsp_ignore(tell(sentry, &(struct request){.kind = WATCH, .pid = pid}));
}

void gsp_sentry_awake(struct gsp_sentry *sentry)
{
    gsp_ignore(tell(sentry, &(struct request){.kind = AWAKE}));
}

void gsp_sentry_stop(struct gsp_sentry *sentry)
{
    pthread_mutex_lock(&sentry->lock);
    if (sentry->pid > 0) {
        kill(sentry->pid, SIGKILL);
        while (waitpid(sentry->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    gsp_fd_close(&sentry->fd);
    sentry->pid = 0;
    sentry->fd = -1;
    pthread_mutex_unlock(&sentry->lock);
}
