/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/stop.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/time.h"
#include "proc/task.h"

/* How long to spin for a stop, then the time to sleep between two checks. */
#define SPIN_NS       (100 * GSP_NS_PER_US)
#define POLL_NS       (50 * GSP_NS_PER_US)
/* How long release waits for threads that cannot be detached yet. */
#define RELEASE_NS    (100 * GSP_NS_PER_MS)
#define FREE_TRIES    10
/* How long to wait for a thread that must stop again. It may have to wait for a CPU. */
#define AGAIN_NS      (2 * GSP_NS_PER_S)
/* The shortest time slice that the kernel grants. */
#define SLICE_NS      100000U
/* The signal of a stop at a system call (PTRACE_O_TRACESYSGOOD). */
#define CALL_SIGNAL   (SIGTRAP | 0x80)
/* SCHED_FLAG_RESET_ON_FORK: children do not inherit the time slice. */
#define RESET_ON_FORK 1U

struct held {
    pid_t tid;
    bool stopped;
    bool leaving; /* released, but only a stopped thread can be detached */
    bool at_call; /* stopped at the beginning or end of a system call */
    int signal;   /* to be delivered at release; 0 for none */
};

struct gsp_stop {
    pid_t pid;
    bool is_child; /* of gsprof: its exit status must stay for the caller's wait() */
    struct held *items;
    size_t count;
    size_t cap;
    int64_t running_ns; /* the last time at which one was seen running */
};

int gsp_proc_stop_new(pid_t pid, struct gsp_stop **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_stop *stop = calloc(1, sizeof(*stop));
    if (!stop)
        return gsp_err_nomem(err);
    stop->pid = pid;
    struct gsp_procinfo info;
    stop->is_child = gsp_proc_info(pid, &info, NULL) == GSP_OK && info.ppid == getpid();
    *out = stop;
    return GSP_OK;
}

void gsp_proc_stop_free(struct gsp_stop *stop)
{
    if (!stop)
        return;
    /* The kernel detaches the remaining threads when this process ends. */
    for (int i = 0; i == 0 || (stop->count > 0 && i < FREE_TRIES); i++)
        gsp_proc_stop_release(stop);
    free(stop->items);
    free(stop);
}

static bool is_held(const struct gsp_stop *stop, pid_t tid)
{
    for (size_t i = 0; i < stop->count; i++)
        if (stop->items[i].tid == tid)
            return true;
    return false;
}

static int push(struct gsp_stop *stop, pid_t tid)
{
    if (!gsp_array_fit(&stop->items, &stop->cap, stop->count + 1))
        return GSP_E_NOMEM;
    stop->items[stop->count++] = (struct held){.tid = tid};
    return GSP_OK;
}

static bool is_leaving(const struct gsp_stop *stop, pid_t tid)
{
    for (size_t i = 0; i < stop->count; i++)
        if (stop->items[i].tid == tid)
            return stop->items[i].leaving;
    return false;
}

/* For a zombie the kernel returns EPERM. */
static bool has_ended(pid_t pid, pid_t tid)
{
    struct gsp_taskfd task;
    if (gsp_proc_taskfd_open(&task, pid, tid) != GSP_OK)
        return true;
    char state = gsp_proc_taskfd_state(&task);
    gsp_proc_taskfd_close(&task);
    return state == 0 || state == 'Z' || state == 'X';
}

/* Seizes one thread and interrupts it. Returns GSP_OK without adding the thread if it has ended. */
static int seize(struct gsp_stop *stop, pid_t tid, struct gsp_err *err)
{
    if (ptrace(PTRACE_SEIZE, tid, 0, (void *)(uintptr_t)PTRACE_O_TRACESYSGOOD) != 0) {
        int sys = errno;
        if (sys == ESRCH || has_ended(stop->pid, tid))
            return GSP_OK;
        return gsp_err_set(err, GSP_E_PERM, sys, "thread %d cannot be stopped", (int)tid);
    }
    int rc = push(stop, tid);
    if (rc != GSP_OK)
        ptrace(PTRACE_DETACH, tid, 0, 0);
    else
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    return rc;
}

/* Seizes the threads that are not held yet. Sets *added if there were any. */
static int seize_new(struct gsp_stop *stop, bool *added, struct gsp_err *err)
{
    struct gsp_task *tasks;
    size_t count;
    *added = false;
    int rc = gsp_proc_tasks(stop->pid, &tasks, &count, err);
    if (rc != GSP_OK)
        return rc;
    for (size_t i = 0; rc == GSP_OK && i < count; i++) {
        pid_t tid = tasks[i].tid;
        if (is_held(stop, tid))
            continue;
        size_t before = stop->count;
        rc = seize(stop, tid, err);
        *added = *added || stop->count != before;
    }
    free(tasks);
    return rc;
}

enum status { RUNNING, STOPPED, ENDED };

/* Checks once whether a thread has stopped. Does not consume the exit status of a child. */
static enum status poll_status(struct held *held, bool is_child)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)held->tid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
        return ENDED;
    if (info.si_pid == 0)
        return RUNNING;
    bool ended =
        info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    if (ended && is_child)
        return ENDED;
    held->at_call = !ended && info.si_status == CALL_SIGNAL;
    held->signal = !ended && info.si_status < CALL_SIGNAL ? info.si_status : 0;
    held->stopped = !ended;
    /* A stop without an event is the delivery of a signal. The kernel still delivers it if gsprof
     * is killed, as long as nothing has consumed the stop. */
    int status;
    if (held->signal == 0 && waitpid(held->tid, &status, __WALL | WNOHANG) != held->tid)
        held->stopped = false;
    return held->stopped ? STOPPED : ENDED;
}

static int wait_all(struct gsp_stop *stop, int64_t deadline_ns, struct gsp_err *err)
{
    int64_t start_ns = gsp_now_ns();
    int64_t now_ns = start_ns;
    stop->running_ns = start_ns;
    for (;; now_ns = gsp_now_ns()) {
        size_t waiting = 0;
        for (size_t i = 0; i < stop->count;) {
            struct held *held = &stop->items[i];
            if (!held->stopped && !held->leaving &&
                poll_status(held, stop->is_child && held->tid == stop->pid) == ENDED) {
                *held = stop->items[--stop->count];
                continue; /* another thread is at i now */
            }
            waiting += !held->stopped && !held->leaving;
            i++;
        }
        if (waiting == 0)
            return GSP_OK;
        stop->running_ns = now_ns;
        if (now_ns > deadline_ns)
            return gsp_err_set(err, GSP_E_TIMEOUT, 0, "%zu threads did not stop in time", waiting);
        /* A running thread stops within microseconds, so spin first: after a yield this thread
         * might get the CPU back only milliseconds later, while the target stays stopped. A
         * thread that waits for a CPU needs this one, so sleep then. */
        if (now_ns - start_ns >= SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

int gsp_proc_stop_hold(struct gsp_stop *stop, int64_t limit_ns, struct gsp_err *err)
{
    int64_t deadline_ns = gsp_now_ns() + limit_ns;
    bool added = true;
    int rc = GSP_OK;
    gsp_proc_stop_sweep(stop);
    if (stop->count > 0)
        return gsp_err_set(err, GSP_E_TIMEOUT, 0, "%zu threads have not stopped yet", stop->count);
    /* New threads may start while others are being stopped: repeat until none is found. */
    while (rc == GSP_OK && added) {
        rc = seize_new(stop, &added, err);
        if (rc == GSP_OK)
            rc = wait_all(stop, deadline_ns, err);
    }
    if (rc == GSP_OK && stop->count == 0)
        rc = gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has ended", (int)stop->pid);
    if (rc != GSP_OK)
        gsp_proc_stop_release(stop);
    return rc;
}

static int read_regs(pid_t tid, struct gsp_stop_regs *regs)
{
    struct user_regs_struct user;
    struct iovec iov = {&user, sizeof(user)};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS, &iov) != 0)
        return GSP_E_NOPROC;
#if defined(__x86_64__)
    *regs = (struct gsp_stop_regs){.pc = user.rip,
                                   .sp = user.rsp,
                                   .fp = user.rbp,
                                   .kept = {user.rbx, user.r12, user.r13, user.r14, user.r15}};
#elif defined(__aarch64__)
    *regs = (struct gsp_stop_regs){
        .pc = user.pc, .sp = user.sp, .fp = user.regs[29], .lr = user.regs[30]};
#else
#error "unsupported machine"
#endif
    return GSP_OK;
}

int64_t gsp_proc_stop_running_ns(const struct gsp_stop *stop)
{
    return stop->running_ns;
}

int gsp_proc_stop_hold_task(struct gsp_stop *stop, pid_t tid, int64_t limit_ns,
                            struct gsp_stop_regs *regs, struct gsp_err *err)
{
    gsp_proc_stop_sweep(stop);
    if (is_leaving(stop, tid))
        return gsp_err_set(err, GSP_E_TIMEOUT, 0, "thread %d has not stopped yet", (int)tid);
    int rc = seize(stop, tid, err);
    if (rc == GSP_OK)
        rc = wait_all(stop, gsp_now_ns() + limit_ns, err);
    if (rc == GSP_OK && (!is_held(stop, tid) || read_regs(tid, regs) != GSP_OK))
        rc = gsp_err_set(err, GSP_E_NOPROC, 0, "thread %d has ended", (int)tid);
    if (rc != GSP_OK)
        gsp_proc_stop_release(stop);
    return rc;
}

int gsp_proc_stop_signal(const struct gsp_stop *stop)
{
    return stop->count > 0 ? stop->items[0].signal : 0;
}

void gsp_proc_stop_clear_signal(struct gsp_stop *stop)
{
    if (stop->count > 0)
        stop->items[0].signal = 0;
}

/* Waits for the one thread that was resumed. Fails with NOPROC if it has ended. */
static int wait_one(struct gsp_stop *stop, int64_t deadline_ns, struct gsp_err *err)
{
    int64_t running_ns = stop->running_ns;
    int rc = wait_all(stop, deadline_ns, err);
    stop->running_ns = running_ns; /* the thread ran injected code, not the program's */
    if (rc == GSP_OK && stop->count == 0)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "the thread has ended");
    return rc;
}

/* Resumes the one stopped thread and waits until it stops again. */
static int resume(struct gsp_stop *stop, unsigned request, int64_t deadline_ns, struct gsp_err *err)
{
    struct held *held = &stop->items[0];
    const int signal = held->signal;
    held->stopped = false;
    held->signal = 0;
    ptrace(request, held->tid, 0, signal);
    int rc = wait_one(stop, deadline_ns, err);
    if (rc != GSP_E_TIMEOUT)
        return rc;
    ptrace(PTRACE_INTERRUPT, held->tid, 0, 0);
    rc = wait_one(stop, gsp_now_ns() + AGAIN_NS, err);
    /* A traced system call stops first at its end, where not all registers of aarch64 can be set,
     * and this discards the request to stop. */
    if (rc == GSP_OK && held->at_call) {
        held->stopped = false;
        ptrace(PTRACE_INTERRUPT, held->tid, 0, 0);
        ptrace(PTRACE_CONT, held->tid, 0, 0);
        rc = wait_one(stop, gsp_now_ns() + AGAIN_NS, err);
    }
    if (rc != GSP_OK)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "the thread cannot be stopped again");
    return gsp_err_set(err, GSP_E_TIMEOUT, 0, "the call did not return in time");
}

static int check_one(const struct gsp_stop *stop, struct gsp_err *err)
{
    if (stop->count != 1 || !stop->items[0].stopped)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "no thread is held");
    return GSP_OK;
}

int gsp_proc_stop_run(struct gsp_stop *stop, int64_t limit_ns, struct gsp_err *err)
{
    int64_t deadline_ns = gsp_now_ns() + limit_ns;
    int rc = check_one(stop, err);
    /* SIGSTOP is delivered at once, which begins a group stop. The thread is resumed out of it. */
    while (rc == GSP_OK) {
        rc = resume(stop, PTRACE_SYSCALL, deadline_ns, err);
        const struct held *held = &stop->items[0];
        if (rc == GSP_OK && (held->at_call || (held->signal != 0 && held->signal != SIGSTOP)))
            break;
    }
    return rc;
}

int gsp_proc_stop_finish_call(struct gsp_stop *stop, int64_t limit_ns, struct gsp_err *err)
{
    int64_t deadline_ns = gsp_now_ns() + limit_ns;
    int rc = check_one(stop, err);
    if (rc != GSP_OK)
        return rc;
    ptrace(PTRACE_INTERRUPT, stop->items[0].tid, 0, 0);
    return resume(stop, PTRACE_CONT, deadline_ns, err);
}

/* Detaches a thread. Returns false if it has not stopped yet: a seized thread must stop before it
 * can be detached. */
static bool detach(struct held *held, bool is_child)
{
    if (!held->stopped) {
        enum status status = poll_status(held, is_child);
        if (status != STOPPED)
            return status == ENDED;
    }
    ptrace(PTRACE_DETACH, held->tid, 0, held->signal);
    return true;
}

void gsp_proc_stop_sweep(struct gsp_stop *stop)
{
    size_t kept = 0;
    for (size_t i = 0; i < stop->count; i++) {
        struct held held = stop->items[i];
        if (!held.leaving || !detach(&held, stop->is_child && held.tid == stop->pid))
            stop->items[kept++] = held;
    }
    stop->count = kept;
}

void gsp_proc_stop_release(struct gsp_stop *stop)
{
    int64_t deadline_ns = gsp_now_ns() + RELEASE_NS;
    for (size_t i = 0; i < stop->count; i++)
        stop->items[i].leaving = true;
    gsp_proc_stop_sweep(stop);
    /* A thread that waits for a CPU or a disk stops when it resumes, and must be detached then. */
    while (stop->count > 0 && gsp_now_ns() < deadline_ns) {
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        gsp_proc_stop_sweep(stop);
    }
}

/* The first version of struct sched_attr (linux/sched/types.h), which the C library lacks. */
struct attr {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* of SCHED_OTHER threads: the requested time slice */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

void gsp_proc_stop_request_short_slices(void)
{
    struct attr attr = {0};
    if (syscall(SYS_sched_getattr, 0, &attr, (unsigned)sizeof(attr), 0U) != 0 || attr.policy != 0)
        return;
    attr.size = sizeof(attr);
    attr.flags = RESET_ON_FORK;
    attr.runtime_ns = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0U);
}
