/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/time.h"
#include "record/launch.h"
#include "record/signal_sentry.h"

/* A sender that signals many processes one by one has reached all of them after this time. */
#define GRACE_NS  (2 * GSP_NS_PER_MS)
/* The kernel also signals the members of a group one by one, and a virtual CPU can pause in
 * between. */
#define BEHIND_NS (10 * GSP_NS_PER_MS)
/* After this time without a signal, the next one has nothing to do with the previous ones. */
#define QUIET_NS  (50 * GSP_NS_PER_MS)
/* Further real-time signals stay queued in the kernel. */
#define QUEUE_MAX 1024U

/* Not blocked: signals that report a fault of gsprof itself, and those it needs as a parent. */
static const int NOT_HELD[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS,
                               SIGABRT, SIGPIPE, SIGCHLD, SIGKILL, SIGSTOP};

struct received {
    siginfo_t info;
    int64_t at_ns;
    bool is_alone; /* a SIGCONT that continued gsprof but not the sentry: not sent to the group */
};

/* Signals received from the kernel. They are received at once, because a signal is lost while
 * another one of the same number is pending; but only after the sentry has received its own. A
 * signal to the group reaches the sentry first, because it is the younger process. So if two
 * signals to the group become one for the sentry because they come close together, gsprof does not
 * receive the second, either. */
static struct {
    struct gsp_lock lock;
    pthread_cond_t filled;
    struct received at[QUEUE_MAX] GSP_GUARDED_BY(lock); /* a ring buffer */
    size_t first GSP_GUARDED_BY(lock);
    size_t count GSP_GUARDED_BY(lock);
    uint32_t left_behind GSP_GUARDED_BY(lock); /* of the sentry, when collect() last ran */
    bool is_closed GSP_GUARDED_BY(lock);
} queue;

static struct {
    struct gsp_lock lock;
    /* How many of the signals that the sentry has received were matched with one of ours. */
    struct gsp_signal_counts claimed GSP_GUARDED_BY(lock);
    pid_t program GSP_GUARDED_BY(lock); /* 0: not started yet, or exited */
    struct gsp_signal_sentry sentry;
    sigset_t held;
    int signals_fd; /* readable when a signal is pending */
    int wake[2];    /* a pipe; its closed write end stops the collector */
    bool has_collector;
    bool has_decider;
    pthread_t collector;
    pthread_t decider;
} run = {.sentry = GSP_SIGNAL_SENTRY_NONE, .signals_fd = -1, .wake = {-1, -1}};

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

/* Raises a signal with its default action. */
static void raise_default(int sig)
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

/* ---------------------------------------------------------------------------------- passing on */

GSP_REQUIRES(&run.lock) static void pass_on(int sig, const siginfo_t *info)
{
    if (info->si_code == SI_QUEUE)
        sigqueue(run.program, sig, info->si_value);
    else
        kill(run.program, sig);
}

/* Whether the sentry or gsprof sent it. The kernel names gsprof as the sender of a SIGXFSZ that one
 * of its files causes. */
static bool is_ours(const siginfo_t *info)
{
    return info->si_code <= 0 && info->si_pid > 0 &&
           (info->si_pid == run.sentry.pid || info->si_pid == getpid());
}

/* Whether a process sent it, or the kernel sent it to the leader of a session whose terminal was
 * closed: without gsprof the program would be that leader. */
static bool is_for_program(int sig, const siginfo_t *info, bool has_sentry)
{
    if (info->si_code <= 0)
        return !is_ours(info);
    return has_sentry && sig == SIGHUP;
}

/* Whether the program sent it, to its group or to its parent; without gsprof that would be the
 * parent of gsprof. */
GSP_REQUIRES(&run.lock) static bool is_of_program(const siginfo_t *info)
{
    return info->si_code <= 0 && info->si_pid == run.program;
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

/* Passes on a key typed at the terminal. Without gsprof, a program that makes itself the leader of
 * a group would already be the leader of this one: it and its group would have received the signal.
 */
GSP_REQUIRES(&run.lock) static void pass_key(int sig)
{
    const pid_t group = getpgid(run.program);
    if (getpgrp() == getpid() && group == run.program && getsid(run.program) == getsid(0))
        kill(-group, sig);
}

/* The first signal skips the report, which can be written later; the second ends gsprof. */
static void act_after_exit(int sig)
{
    const bool ends = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
    const bool stops = sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
    if (is_ignored(sig) || (!ends && !stops))
        return;
    if (stops || interrupted)
        raise_default(sig);
    else
        interrupted = 1;
}

/* --------------------------------------------------------------------------------------- queue */

/* Finds the signals that were pending before the sentry is queried: the sentry may not have
 * received its own of a later one yet. Adds SIGCONT, which may continue the sentry. */
static void find_due(sigset_t *out)
{
    sigset_t pending;
    sigemptyset(&pending);
    gsp_ignore(sigpending(&pending) < 0);
    sigandset(out, &run.held, &pending);
    sigaddset(out, SIGCONT);
}

/* Receives the pending signals. Returns false if the queue is full. */
static bool collect(void)
{
    const struct timespec now = {0};
    struct gsp_signal_counts unused;
    sigset_t due;
    find_due(&due);
    gsp_ignore(gsp_record__signal_sentry_query(&run.sentry, &unused));
    gsp_lock_take(&queue.lock);
    const uint32_t left_behind = atomic_load(&run.sentry.left_behind);
    bool is_left_behind = left_behind != queue.left_behind;
    queue.left_behind = left_behind;
    while (queue.count < QUEUE_MAX) {
        struct received *one = &queue.at[(queue.first + queue.count) % QUEUE_MAX];
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
    const bool has_space = queue.count < QUEUE_MAX;
    pthread_cond_signal(&queue.filled);
    gsp_lock_release(&queue.lock);
    return has_space;
}

static bool pop(struct received *out)
{
    gsp_lock_take(&queue.lock);
    const bool has_one = queue.count > 0;
    if (has_one) {
        *out = queue.at[queue.first];
        queue.first = (queue.first + 1) % QUEUE_MAX;
        queue.count--;
    }
    gsp_lock_release(&queue.lock);
    return has_one;
}

/* Counts the queued signals by number. */
static void count_queued(struct gsp_signal_counts *out)
{
    *out = (struct gsp_signal_counts){0};
    gsp_lock_take(&queue.lock);
    for (size_t i = 0; i < queue.count; i++)
        out->of[queue.at[(queue.first + i) % QUEUE_MAX].info.si_signo]++;
    gsp_lock_release(&queue.lock);
}

/* Waits for a signal, up to QUIET_NS unless is_quiet. Returns whether the queue has one. */
static bool wait_filled(bool is_quiet)
{
    const int64_t deadline_ns = gsp_now_ns() + QUIET_NS;
    bool is_late = false;
    gsp_lock_take(&queue.lock);
    while (queue.count == 0 && !queue.is_closed && !is_late)
        if (is_quiet)
            gsp_lock_wait(&queue.lock, &queue.filled);
        else
            is_late = !gsp_lock_wait_until(&queue.lock, &queue.filled, deadline_ns);
    const bool is_filled = queue.count > 0;
    gsp_lock_release(&queue.lock);
    return is_filled;
}

static bool is_closed(void)
{
    gsp_lock_take(&queue.lock);
    const bool closed = queue.is_closed;
    gsp_lock_release(&queue.lock);
    return closed;
}

/* ----------------------------------------------------------------------------------- deciding */

/* Whether the sentry has received a signal that was not matched yet. */
GSP_REQUIRES(&run.lock) static bool is_unclaimed(int sig, const struct gsp_signal_counts *counts)
{
    return counts->of[sig] != run.claimed.of[sig];
}

/* Queries the sentry; waits a moment if it has not received the signal yet. */
GSP_REQUIRES(&run.lock)
static bool query_sentry(const struct received *one, struct gsp_signal_counts *counts)
{
    if (!gsp_record__signal_sentry_query(&run.sentry, counts))
        return false;
    if (one->is_alone || is_unclaimed(one->info.si_signo, counts))
        return true;
    const int64_t left_ns = one->at_ns + GRACE_NS - gsp_now_ns();
    if (left_ns > 0)
        pause_ns(left_ns);
    return gsp_record__signal_sentry_query(&run.sentry, counts);
}

/* Whether the sentry has received more of some signal than gsprof has matched and queued. claims:
 * counts the surplus as matched. */
GSP_REQUIRES(&run.lock)
static bool has_surplus(const struct gsp_signal_counts *counts,
                        const struct gsp_signal_counts *queued, bool claims)
{
    bool is_any = false;
    for (size_t sig = 1; sig < GSP_SIGNAL_COUNT; sig++) {
        const uint32_t more = counts->of[sig] - run.claimed.of[sig];
        if (more <= queued->of[sig])
            continue;
        is_any = true;
        if (claims)
            run.claimed.of[sig] = counts->of[sig] - queued->of[sig];
    }
    return is_any;
}

/* Two signals to the sentry may be one to gsprof, and some may reach only the sentry. Claims those,
 * so that they are not matched with the next signal. */
GSP_REQUIRES(&run.lock) static void claim_rest(void)
{
    struct gsp_signal_counts counts;
    struct gsp_signal_counts queued;
    if (!gsp_record__signal_sentry_query(&run.sentry, &counts))
        return;
    count_queued(&queued);
    if (!has_surplus(&counts, &queued, false))
        return;
    pause_ns(BEHIND_NS);
    gsp_ignore(collect());
    count_queued(&queued);
    gsp_ignore(has_surplus(&counts, &queued, true));
}

/* Whether the program has certainly not received a signal, whatever the sentry reports: a stop
 * signal discards a pending SIGCONT. A signal to the group may reach the program last. If another
 * SIGCONT is queued, the program may have been stopped in between: then that one decides. */
GSP_REQUIRES(&run.lock) static bool is_missing(int sig)
{
    struct gsp_signal_counts queued;
    if (sig != SIGCONT || !gsp_record__process_is_stopped(run.program))
        return false;
    pause_ns(GRACE_NS);
    /* In this order: a stop signal to the group also stops gsprof, anywhere here, and the SIGCONT
     * that continues it is then queued. */
    const bool is_stopped =
        gsp_record__process_is_stopped(run.program) && !gsp_record__group_is_stopping(&run.sentry);
    gsp_ignore(collect());
    count_queued(&queued);
    return is_stopped && queued.of[SIGCONT] == 0;
}

GSP_REQUIRES(&run.lock) static void decide(const struct received *one)
{
    struct gsp_signal_counts counts;
    const int sig = one->info.si_signo;
    if (run.program <= 0) {
        act_after_exit(sig);
        return;
    }
    const bool has_sentry = query_sentry(one, &counts);
    const bool is_of_group = has_sentry && !one->is_alone && is_unclaimed(sig, &counts);
    if (is_of_group)
        run.claimed.of[sig]++;
    else if (has_sentry && one->is_alone)
        run.claimed.of[sig] = counts.of[sig]; /* a stop signal has discarded the others */
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

GSP_REQUIRES(&run.lock) static void decide_all(void)
{
    struct received one;
    gsp_ignore(collect());
    while (pop(&one))
        decide(&one);
}

static void *collector_main(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd ready[] = {{.fd = run.signals_fd, .events = POLLIN},
                                 {.fd = run.wake[0], .events = POLLIN}};
        if (poll(ready, GSP_COUNT(ready), -1) < 0)
            continue;
        if (ready[1].revents)
            return NULL;
        if (!collect())
            pause_ns(GRACE_NS);
    }
}

static void *decider_main(void *unused)
{
    bool is_quiet = true;
    (void)unused;
    while (!is_closed()) {
        const bool is_filled = wait_filled(is_quiet);
        is_quiet = !is_filled;
        gsp_lock_take(&run.lock);
        if (is_filled)
            decide_all();
        else if (run.program > 0)
            claim_rest();
        gsp_lock_release(&run.lock);
    }
    return NULL;
}

static void start_threads(void)
{
    gsp_thread_cond_init(&queue.filled);
    run.signals_fd = signalfd(-1, &run.held, SFD_CLOEXEC);
    if (run.signals_fd < 0 || pipe2(run.wake, O_CLOEXEC) < 0)
        return;
    run.has_decider = pthread_create(&run.decider, NULL, decider_main, NULL) == 0;
    run.has_collector = pthread_create(&run.collector, NULL, collector_main, NULL) == 0;
}

static void stop_threads(void)
{
    gsp_lock_take(&queue.lock);
    queue.is_closed = true;
    pthread_cond_signal(&queue.filled);
    gsp_lock_release(&queue.lock);
    gsp_fd_close(&run.wake[1]);
    if (run.has_collector)
        pthread_join(run.collector, NULL);
    if (run.has_decider)
        pthread_join(run.decider, NULL);
    run.has_collector = run.has_decider = false;
}

/* ------------------------------------------------------------------------------------- public */

void gsp_record_run_signals_block(void)
{
    sigfillset(&run.held);
    for (size_t i = 0; i < GSP_COUNT(NOT_HELD); i++)
        sigdelset(&run.held, NOT_HELD[i]);
    gsp_record__signals_block(&run.held);
}

void gsp_record_run_signals_prepare(char *const *argv, char *const *words)
{
    /* Without a sentry, all signals sent by a process are passed on. */
    gsp_ignore(gsp_record__signal_sentry_start(&run.sentry, argv, words, NULL));
}

void gsp_record_run_signals_begin(pid_t program)
{
    struct received one;
    gsp_lock_take(&run.lock);
    run.program = program;
    /* The program has no signal that came before the fork. A signal that came later is sent to it a
     * second time here; both become one, because the signal is blocked. */
    gsp_ignore(gsp_record__signal_sentry_query(&run.sentry, &run.claimed));
    gsp_ignore(collect());
    while (pop(&one))
        if (!is_ours(&one.info))
            pass_on(one.info.si_signo, &one.info);
    gsp_lock_release(&run.lock);
    start_threads();
}

void gsp_record_run_signals_poll(void)
{
    if (run.has_collector && run.has_decider)
        return;
    gsp_lock_take(&run.lock);
    decide_all();
    gsp_lock_release(&run.lock);
}

/* Passes on a SIGCONT first: gsprof and the program may have been stopped together. A stop
 * signal to the group reaches gsprof within the pause: if gsprof stopped itself at that time, it
 * would discard the SIGCONT that follows. */
void gsp_record_run_signals_stop(int sig)
{
    gsp_lock_take(&run.lock);
    decide_all();
    if (gsp_record__process_is_stopped(run.program)) {
        pause_ns(GRACE_NS);
        decide_all();
    }
    if (gsp_record__process_is_stopped(run.program) &&
        !gsp_record__group_is_stopping(&run.sentry)) {
        gsp_record__signal_sentry_watch(&run.sentry, run.program);
        raise_default(sig);
        gsp_record__signal_sentry_unwatch(&run.sentry);
    }
    gsp_lock_release(&run.lock);
}

void gsp_record_run_signals_end(void)
{
    gsp_lock_take(&run.lock);
    decide_all(); /* earlier signals are for the program */
    run.program = 0;
    gsp_lock_release(&run.lock);
    gsp_record__signal_sentry_end(&run.sentry);
}

const volatile sig_atomic_t *gsp_record_run_signals_interrupted(void)
{
    return &interrupted;
}

void gsp_record_run_signals_raise(int sig)
{
    prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
    raise_default(sig);
}

void gsp_record_run_signals_close(void)
{
    stop_threads();
    gsp_record__signal_sentry_end(&run.sentry);
    gsp_fd_close(&run.signals_fd);
    gsp_fd_close(&run.wake[0]);
    run.signals_fd = run.wake[0] = run.wake[1] = -1;
}
