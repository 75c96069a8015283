/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "record/launch.h"
#include "record/sentry.h"

/* A sender that signals many processes one by one has reached all of them after this time. */
#define GRACE_NS  (2 * GSP_NS_PER_MS)
/* The kernel signals a group one by one, too, and a virtual CPU can stand still in between. */
#define BEHIND_NS (10 * GSP_NS_PER_MS)
/* No signal for so long: the next one is a new matter. */
#define QUIET_NS  (50 * GSP_NS_PER_MS)
/* Real-time signals beyond this wait in the kernel. */
#define QUEUE_MAX 1024U

/* Not held: those that tell of a fault of our own, and those that concern us as a parent. */
static const int LEFT_OUT[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS,
                               SIGABRT, SIGPIPE, SIGCHLD, SIGKILL, SIGSTOP};

struct taken {
    siginfo_t info;
    int64_t at_ns;
    bool
        is_alone; /* a SIGCONT that has woken us and not the sentry: it was not sent to the group */
};

/* What was taken from the kernel.  That is done at once, because a signal that comes while its like
 * is still pending is lost; but not before the sentry has taken it, which it gets earlier, being
 * the younger process.  So of two signals to the group that are one to the sentry, because they
 * came close together, we do not get the second. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct taken at[QUEUE_MAX]; /* a ring */
    size_t first;
    size_t count;
    uint32_t left_behind; /* how often the sentry was, when signals were last taken */
    bool is_closed;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    pthread_mutex_t lock; /* for what follows up to program, while the threads run */
    struct gsp_sentry sentry;
    struct gsp_sentry_counts claimed; /* of what the sentry has received, what we have as well */
    pid_t program;                    /* 0: it has ended, or has not begun */
    sigset_t held;
    int signals_fd; /* readable when one is pending */
    int wake_fd;    /* readable when the threads have to end */
    bool has_collector;
    bool has_decider;
    pthread_t collector;
    pthread_t decider;
} the = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .sentry = GSP_SENTRY_NONE, .signals_fd = -1, .wake_fd = -1};

static volatile sig_atomic_t interrupted;

static void pause_ns(int64_t ns)
{
    const struct timespec pause = {.tv_nsec = ns};
    nanosleep(&pause, NULL);
}

static bool is_ignored(int sig)
{
    struct sigaction action;
    return sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Lets a signal do to us what it does by default. */
static void suffer(int sig)
{
    sigset_t one;
    sigset_t old;
    sigemptyset(&one);
    sigaddset(&one, sig);
    if (sig != SIGSTOP && sig != SIGKILL)
        signal(sig, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &one, &old);
    raise(sig);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---------------------------------------------------------------------------- what they mean */

static void pass_on(int sig, const siginfo_t *info)
{
    if (info->si_code == SI_QUEUE)
        sigqueue(the.program, sig, info->si_value);
    else
        kill(the.program, sig);
}

/* Sent by the sentry, or by us: the kernel names us as the sender of SIGXFSZ for a file of ours. */
static bool is_ours(const siginfo_t *info)
{
    return info->si_code <= 0 && info->si_pid > 0 &&
           (info->si_pid == the.sentry.pid || info->si_pid == getpid());
}

/* Sent by a process; or by the kernel to the leader of a session whose terminal is gone, which the
 * program would be without us. */
static bool is_for_program(int sig, const siginfo_t *info, bool has_sentry)
{
    if (info->si_code <= 0)
        return !is_ours(info);
    return has_sentry && sig == SIGHUP;
}

/* Sent by the program: to its group, or to its parent, which is ours without us. */
static bool is_of_program(const siginfo_t *info)
{
    return info->si_code <= 0 && info->si_pid == the.program;
}

static void pass_up(int sig, const siginfo_t *info)
{
    const pid_t parent = getppid();
    if (parent <= 1)
        return;
    if (info->si_code == SI_QUEUE)
        sigqueue(parent, sig, info->si_value);
    else
        kill(parent, sig);
}

/* A key of the terminal.  A program that makes itself the leader of a group is that already where
 * we are, so it would have got the signal, and its group too. */
static void pass_key(int sig)
{
    const pid_t group = getpgid(the.program);
    if (getpgrp() == getpid() && group == the.program && getsid(the.program) == getsid(0))
        kill(-group, sig);
}

/* The report can be made later; who cannot wait for the rest asks once more. */
static void take_after_end(int sig)
{
    const bool ends = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
    const bool stops = sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
    if (is_ignored(sig) || (!ends && !stops))
        return;
    if (stops || interrupted)
        suffer(sig);
    else
        interrupted = 1;
}

/* ---------------------------------------------------------------------------------- the queue */

/* Those that are pending before the sentry is asked, once each: of one that comes later the sentry
 * may not have taken its own yet.  And SIGCONT, by which the sentry may be woken. */
static void find_due(sigset_t *out)
{
    sigset_t pending;
    sigemptyset(&pending);
    gsp_ignore(sigpending(&pending) < 0);
    sigandset(out, &the.held, &pending);
    sigaddset(out, SIGCONT);
}

/* Whether there is room for more. */
static bool collect(void)
{
    const struct timespec now = {0};
    struct gsp_sentry_counts unused;
    sigset_t due;
    find_due(&due);
    gsp_ignore(gsp_sentry_ask(&the.sentry, &unused));
    pthread_mutex_lock(&queue.lock);
    const uint32_t left_behind = atomic_load(&the.sentry.left_behind);
    bool is_left_behind = left_behind != queue.left_behind;
    queue.left_behind = left_behind;
    while (queue.count < QUEUE_MAX) {
        struct taken *one = &queue.at[(queue.first + queue.count) % QUEUE_MAX];
        const int sig = sigtimedwait(&due, &one->info, &now);
        if (sig <= 0)
            break;
        if (sig < SIGRTMIN && sig != SIGCONT)
            sigdelset(&due, sig);
        one->at_ns = gsp_now_ns();
        one->is_alone = sig == SIGCONT && is_left_behind;
        if (one->is_alone)
            is_left_behind = false;
        queue.count++;
    }
    const bool has_room = queue.count < QUEUE_MAX;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
    return has_room;
}

static bool pop(struct taken *out)
{
    pthread_mutex_lock(&queue.lock);
    const bool has_one = queue.count > 0;
    if (has_one) {
        *out = queue.at[queue.first];
        queue.first = (queue.first + 1) % QUEUE_MAX;
        queue.count--;
    }
    pthread_mutex_unlock(&queue.lock);
    return has_one;
}

/* How many of each signal wait there. */
static void count_waiting(struct gsp_sentry_counts *out)
{
    *out = (struct gsp_sentry_counts){0};
    pthread_mutex_lock(&queue.lock);
    for (size_t i = 0; i < queue.count; i++)
        out->of[queue.at[(queue.first + i) % QUEUE_MAX].info.si_signo]++;
    pthread_mutex_unlock(&queue.lock);
}

/* Whether there is something before it gets quiet, or late; false too when all is over. */
static bool wait_filled(bool is_quiet)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += QUIET_NS;
    until.tv_sec += until.tv_nsec / GSP_NS_PER_S;
    until.tv_nsec %= GSP_NS_PER_S;
    int rc = 0;
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && !queue.is_closed && rc == 0)
        rc = is_quiet ? pthread_cond_wait(&queue.filled, &queue.lock)
                      : pthread_cond_timedwait(&queue.filled, &queue.lock, &until);
    const bool is_filled = queue.count > 0;
    pthread_mutex_unlock(&queue.lock);
    return is_filled;
}

static bool is_closed(void)
{
    pthread_mutex_lock(&queue.lock);
    const bool closed = queue.is_closed;
    pthread_mutex_unlock(&queue.lock);
    return closed;
}

/* ----------------------------------------------------------------------------------- deciding */

/* Whether the sentry has more of it than we have taken. */
static bool is_more(int sig, const struct gsp_sentry_counts *counts)
{
    return counts->of[sig] != the.claimed.of[sig];
}

/* Asks the sentry, who may have it a moment later than we. */
static bool ask_about(const struct taken *one, struct gsp_sentry_counts *counts)
{
    if (!gsp_sentry_ask(&the.sentry, counts))
        return false;
    if (one->is_alone || is_more(one->info.si_signo, counts))
        return true;
    const int64_t left_ns = one->at_ns + GRACE_NS - gsp_now_ns();
    if (left_ns > 0)
        pause_ns(left_ns);
    return gsp_sentry_ask(&the.sentry, counts);
}

/* Whether the sentry has more of some signal than we have and shall have. */
static bool is_beyond(const struct gsp_sentry_counts *counts,
                      const struct gsp_sentry_counts *waiting, bool claims)
{
    bool is_any = false;
    for (size_t sig = 1; sig < GSP_SENTRY_SIGNALS; sig++) {
        const uint32_t more = counts->of[sig] - the.claimed.of[sig];
        if (more <= waiting->of[sig])
            continue;
        is_any = true;
        if (claims)
            the.claimed.of[sig] = counts->of[sig] - waiting->of[sig];
    }
    return is_any;
}

/* Two that are two to the sentry may be one to us, and some may reach it alone.  What we shall not
 * see is claimed, so that it is not taken for the next signal. */
static void claim_rest(void)
{
    struct gsp_sentry_counts counts;
    struct gsp_sentry_counts waiting;
    if (!gsp_sentry_ask(&the.sentry, &counts))
        return;
    count_waiting(&waiting);
    if (!is_beyond(&counts, &waiting, false))
        return;
    pause_ns(BEHIND_NS);
    gsp_ignore(collect());
    count_waiting(&waiting);
    gsp_ignore(is_beyond(&counts, &waiting, true));
}

/* Whether the program has certainly not got it, whatever the sentry says: a stop signal takes a
 * SIGCONT away that we have not seen yet.  One to the group may reach the program last.  If there
 * is a later one, the program may have been stopped since: then that one decides. */
static bool is_missing(int sig)
{
    struct gsp_sentry_counts waiting;
    if (sig != SIGCONT || !gsp_sentry_is_stopped(the.program))
        return false;
    pause_ns(GRACE_NS);
    /* In this order: a stop of the group stops us too, anywhere here, and what then wakes us is
     * seen to wait. */
    const bool is_stopped = gsp_sentry_is_stopped(the.program) && !gsp_sentry_stops(&the.sentry);
    gsp_ignore(collect());
    count_waiting(&waiting);
    return is_stopped && waiting.of[SIGCONT] == 0;
}

static void decide(const struct taken *one)
{
    struct gsp_sentry_counts counts;
    const int sig = one->info.si_signo;
    if (the.program <= 0) {
        take_after_end(sig);
        return;
    }
    const bool has_sentry = ask_about(one, &counts);
    const bool is_of_group = has_sentry && !one->is_alone && is_more(sig, &counts);
    if (is_of_group)
        the.claimed.of[sig]++;
    else if (has_sentry && one->is_alone)
        the.claimed.of[sig] = counts.of[sig]; /* a stop has taken the others away from us */
    if (is_of_program(&one->info)) {
        if (has_sentry && !is_of_group)
            pass_up(sig, &one->info);
    } else if (is_for_program(sig, &one->info, has_sentry) && (!is_of_group || is_missing(sig))) {
        pass_on(sig, &one->info);
    }
    if (one->info.si_code == SI_KERNEL && sig != SIGHUP)
        pass_key(sig);
    if (has_sentry)
        claim_rest();
}

/* With the lock. */
static void decide_all(void)
{
    struct taken one;
    gsp_ignore(collect());
    while (pop(&one))
        decide(&one);
}

static void *collect_on(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd ready[] = {{.fd = the.signals_fd, .events = POLLIN},
                                 {.fd = the.wake_fd, .events = POLLIN}};
        if (poll(ready, GSP_COUNT(ready), -1) < 0)
            continue;
        if (ready[1].revents)
            return NULL;
        if (!collect())
            pause_ns(GRACE_NS);
    }
}

static void *decide_on(void *unused)
{
    bool is_quiet = true;
    (void)unused;
    while (!is_closed()) {
        const bool is_filled = wait_filled(is_quiet);
        is_quiet = !is_filled;
        pthread_mutex_lock(&the.lock);
        if (is_filled)
            decide_all();
        else if (the.program > 0)
            claim_rest();
        pthread_mutex_unlock(&the.lock);
    }
    return NULL;
}

static void start_threads(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.filled, &attr);
    pthread_condattr_destroy(&attr);
    the.signals_fd = signalfd(-1, &the.held, SFD_CLOEXEC);
    the.wake_fd = eventfd(0, EFD_CLOEXEC);
    if (the.signals_fd < 0 || the.wake_fd < 0)
        return;
    the.has_decider = pthread_create(&the.decider, NULL, decide_on, NULL) == 0;
    the.has_collector = pthread_create(&the.collector, NULL, collect_on, NULL) == 0;
}

static void stop_threads(void)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&queue.lock);
    queue.is_closed = true;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
    if (the.has_collector) {
        gsp_ignore(write(the.wake_fd, &one, sizeof(one)) < 0);
        pthread_join(the.collector, NULL);
    }
    if (the.has_decider)
        pthread_join(the.decider, NULL);
    the.has_collector = the.has_decider = false;
}

/* ------------------------------------------------------------------------------------- public */

void gsp_run_signals_hold(void)
{
    sigfillset(&the.held);
    for (size_t i = 0; i < GSP_COUNT(LEFT_OUT); i++)
        sigdelset(&the.held, LEFT_OUT[i]);
    gsp_launch_hold(&the.held);
}

void gsp_run_signals_prepare(char *const *argv, char *const *words)
{
    /* Without it, what a process sent is passed on. */
    gsp_ignore(gsp_sentry_start(&the.sentry, argv, words, NULL));
}

void gsp_run_signals_begin(pid_t program)
{
    struct taken one;
    the.program = program;
    /* What came before the fork, the program does not have.  What came after it is sent to it a
     * second time here, and is one signal, since it is blocked. */
    gsp_ignore(gsp_sentry_ask(&the.sentry, &the.claimed));
    gsp_ignore(collect());
    while (pop(&one))
        if (!is_ours(&one.info))
            pass_on(one.info.si_signo, &one.info);
    start_threads();
}

void gsp_run_signals_beat(void)
{
    if (the.has_collector && the.has_decider)
        return;
    pthread_mutex_lock(&the.lock);
    decide_all();
    pthread_mutex_unlock(&the.lock);
}

/* A SIGCONT that has woken us is passed on first: the program may have been stopped together with
 * us, and goes on now.  A stop of the group reaches us within the pause: if we stopped ourselves
 * while it comes, we would take the SIGCONT that follows it away. */
void gsp_run_signals_stop(int sig)
{
    pthread_mutex_lock(&the.lock);
    decide_all();
    if (gsp_sentry_is_stopped(the.program)) {
        pause_ns(GRACE_NS);
        decide_all();
    }
    if (gsp_sentry_is_stopped(the.program) && !gsp_sentry_stops(&the.sentry)) {
        gsp_sentry_watch(&the.sentry, the.program);
        suffer(sig);
        gsp_sentry_awake(&the.sentry);
    }
    pthread_mutex_unlock(&the.lock);
}

void gsp_run_signals_end(void)
{
    pthread_mutex_lock(&the.lock);
    decide_all(); /* what came before the end was for the program */
    the.program = 0;
    pthread_mutex_unlock(&the.lock);
    gsp_sentry_stop(&the.sentry);
}

const volatile sig_atomic_t *gsp_run_signals_interrupted(void)
{
    return &interrupted;
}

void gsp_run_signals_end_by(int sig)
{
    prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
    suffer(sig);
}

void gsp_run_signals_close(void)
{
    stop_threads();
    gsp_sentry_stop(&the.sentry);
    gsp_fd_close(&the.signals_fd);
    gsp_fd_close(&the.wake_fd);
    the.signals_fd = the.wake_fd = -1;
}
