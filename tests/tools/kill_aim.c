/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_aim MOMENT NUMBER LATER_US PROGRAM ARGUMENT... -- runs a program that traces a thread of
 * another process, traces this program itself, and kills it at a certain moment:
 *
 *   call N    the thread is borrowed (its signals are blocked) and runs, LATER_US after the program
 *             has let it run for the Nth time; or later, if a call is over by then
 *   pause N   the same, but if the call is over by then, the thread is stopped
 *   step N    after the Nth ptrace() of the program that succeeded
 *
 * N begins with 0. At the moment the program is stopped, so what is read then stays true; only the
 * call itself may end between that and the kill. With call, prints "killed". With the others,
 * prints "frozen PID" and waits for a line or the end of the input before it kills. Prints "ended"
 * if the program ends before. The program is killed if this one is.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SYSCALL_STOP (SIGTRAP | 0x80)
#define STATUS_MAX   4096U
#define NS_PER_US    1000L

enum moment { CALL, PAUSE, STEP };

struct aim {
    pid_t pid;
    enum moment moment;
    long wanted;
    long later_us;
    long count;
    bool is_borrowed; /* a thread has its signals blocked */
    /* The current ptrace() of the program. */
    bool is_ptrace;
    uint64_t request;
    pid_t tid;
    uint64_t data;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "kill_aim: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* The injector blocks all signals of a borrowed thread but those of faults. A fault that a test has
 * sent is blocked when it arrives; they send only three. No program has such a mask: the C library
 * blocks all signals while it starts a thread. */
static bool is_borrowed_mask(uint64_t mask)
{
    static const int sent[] = {SIGFPE, SIGTRAP, SIGSEGV};
    static const int never[] = {SIGBUS, SIGILL, SIGSYS, SIGKILL, SIGSTOP};
    uint64_t expected = UINT64_MAX;
    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
        mask |= UINT64_C(1) << (unsigned)(sent[i] - 1);
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        expected &= ~(UINT64_C(1) << (unsigned)(never[i] - 1));
    return (mask & ~(UINT64_C(1) << (SIGKILL - 1)) & ~(UINT64_C(1) << (SIGSTOP - 1))) == expected;
}

/* The mask that the program sets. */
static uint64_t new_mask(const struct aim *aim)
{
    uint64_t mask = 0;
    struct iovec to = {&mask, sizeof(mask)};
    struct iovec from = {(void *)(uintptr_t)aim->data, sizeof(mask)}; /* NOLINT */
    return process_vm_readv(aim->pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(mask) ? mask : 0;
}

/* Whether the thread is borrowed and runs, as the kernel describes it. */
static bool runs_call(pid_t tid)
{
    char path[64];
    char text[STATUS_MAX];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    const char *state = strstr(text, "\nState:\t");
    const char *blocked = strstr(text, "\nSigBlk:\t");
    return state && blocked && state[8] != 't' && state[8] != 'T' &&
           is_borrowed_mask(strtoull(blocked + 9, NULL, 16));
}

/* Called when a ptrace() has succeeded. Returns whether this is the moment. */
static bool is_moment(struct aim *aim)
{
    if (aim->request == PTRACE_SETSIGMASK)
        aim->is_borrowed = is_borrowed_mask(new_mask(aim));
    if (aim->moment == STEP)
        return aim->count++ == aim->wanted;
    const bool runs = aim->request == PTRACE_CONT || aim->request == PTRACE_SYSCALL;
    if (!runs || !aim->is_borrowed || aim->count++ < aim->wanted)
        return false;
    const struct timespec later = {.tv_nsec = aim->later_us * NS_PER_US};
    if (aim->later_us)
        nanosleep(&later, NULL);
    return aim->moment == PAUSE || runs_call(aim->tid);
}

/* Called at the begin and the end of each system call. Returns whether this is the moment. */
static bool on_call(struct aim *aim)
{
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, aim->pid, (void *)sizeof(info), &info) < 0)
        fail("PTRACE_GET_SYSCALL_INFO");
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        aim->is_ptrace = info.entry.nr == SYS_ptrace;
        aim->request = info.entry.args[0];
        aim->tid = (pid_t)info.entry.args[1];
        aim->data = info.entry.args[3];
        return false;
    }
    return aim->is_ptrace && info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval >= 0 &&
           is_moment(aim);
}

static pid_t start(char **argv)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
            _exit(127);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execv(argv[0], argv);
        _exit(127);
    }
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, pid, NULL, options) < 0)
        fail(argv[0]);
    return pid;
}

/* Lets the program run until the moment. Returns its status if it ends before, else -1. */
static int run(struct aim *aim)
{
    long signal = 0;
    for (;;) {
        int status = 0;
        if (ptrace(PTRACE_SYSCALL, aim->pid, NULL, signal) < 0 && errno != ESRCH)
            fail("PTRACE_SYSCALL");
        if (waitpid(aim->pid, &status, 0) != aim->pid)
            fail("waitpid");
        if (!WIFSTOPPED(status))
            return status;
        const int stop = WSTOPSIG(status);
        if (stop == SYSCALL_STOP && on_call(aim))
            return -1;
        /* A stop for an event, as after exec(), is not a signal. */
        signal = stop == SYSCALL_STOP || status >> 16 ? 0 : stop;
    }
}

static void wait_for_line(const struct aim *aim)
{
    char byte = 0;
    printf("frozen %d\n", (int)aim->pid);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: kill_aim call|pause|step NUMBER LATER_US PROGRAM [ARGUMENT...]\n", stderr);
        return 2;
    }
    struct aim aim = {.moment = argv[1][0] == 'c'   ? CALL
                                : argv[1][0] == 'p' ? PAUSE
                                                    : STEP,
                      .wanted = strtol(argv[2], NULL, 10),
                      .later_us = strtol(argv[3], NULL, 10)};
    aim.pid = start(argv + 4);
    int status = run(&aim);
    if (status >= 0) {
        puts("ended");
        return 0;
    }
    if (aim.moment != CALL)
        wait_for_line(&aim);
    kill(aim.pid, SIGKILL);
    do {
        if (waitpid(aim.pid, &status, 0) < 0)
            fail("waitpid");
    } while (!WIFEXITED(status) && !WIFSIGNALED(status));
    if (aim.moment == CALL)
        puts("killed");
    return 0;
}
