/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of the emulated machine (aarch64.py): borrows threads of tests/tools/regcheck,
 * kills the injector at many moments, and checks that the targets continue unchanged. Prints
 * "ok ..." or "not ok ..." for each check and switches the machine off.
 *
 * Settings are in the environment: calls=N, waits=N and kills=N for each state of a target. The
 * kernel passes its own parameters there. */
#include <asm/hwcap.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define PATH_CHARS  64U
#define OUTPUT_MAX  1024U
#define LOG         "/log"

struct target {
    const char *how;
    pid_t pid;
    int in;
    int out;
};

struct result {
    unsigned long long rounds;
    unsigned long long bad;
    unsigned long long interrupted;
};

static void check(bool is_ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void check(bool is_ok, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s - ", is_ok ? "ok" : "not ok");
    vprintf(format, args);
    puts("");
    va_end(args);
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000L, us % 1000000L * 1000L}, NULL);
}

/* A value of /proc/PID/status; -1 if the process does not exist. */
static long long status_of(pid_t pid, const char *key, int base)
{
    char path[PATH_CHARS];
    char line[256];
    long long value = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (value < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoll(line + strlen(key), NULL, base);
    fclose(file);
    return value;
}

static bool start(const char *how, struct target *out)
{
    int in[2];
    int lines[2];
    char ready[6] = "";
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(lines, O_CLOEXEC) != 0)
        return false;
    *out = (struct target){how, fork(), in[1], lines[0]};
    if (out->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(lines[1], STDOUT_FILENO);
        execl("/tests/regcheck", "regcheck", how, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(lines[1]);
    for (size_t n = 0; n < sizeof(ready); n++)
        if (read(out->out, ready + n, 1) != 1)
            return false;
    return memcmp(ready, "ready\n", sizeof(ready)) == 0;
}

/* Ends the target. Returns false if it has crashed or does not end. */
static bool finish(struct target *target, struct result *out)
{
    char text[OUTPUT_MAX] = "";
    size_t len = 0;
    ssize_t n;
    int status = 0;
    close(target->in);
    while ((n = read(target->out, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    close(target->out);
    waitpid(target->pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("# %s ended with signal %d\n", target->how, WTERMSIG(status));
    return sscanf(text, "{\"rounds\": %llu, \"bad\": %llu, \"interrupted\": %llu}", &out->rounds,
                  &out->bad, &out->interrupted) == 3;
}

/* Starts the injector. Its output goes to the descriptor. */
static pid_t inject(const struct target *target, const char *symbol, const char *path, int to)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)target->pid);
    pid_t injector = fork();
    if (injector == 0) {
        dup2(to, STDOUT_FILENO);
        dup2(to, STDERR_FILENO);
        execl("/tests/inject_call", "inject_call", pid, "/tests/libinject_probe.so", symbol, path,
              target->how, (char *)NULL);
        _exit(127);
    }
    return injector;
}

/* Makes an ordinary call and returns whether it succeeded. *stopped_ms is the time that it took. */
static bool call(const struct target *target, double *stopped_ms)
{
    char text[OUTPUT_MAX] = "";
    size_t len = 0;
    ssize_t n;
    int ends[2];
    int status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t injector = inject(target, "probe_enter", LOG, ends[1]);
    close(ends[1]);
    while ((n = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    close(ends[0]);
    waitpid(injector, &status, 0);
    const char *time = strstr(text, "\"stopped_ms\": ");
    if (time)
        sscanf(time, "\"stopped_ms\": %lf", stopped_ms);
    const bool is_ok = status == 0 && strstr(text, "\"value\": 42");
    if (!is_ok)
        printf("# %s: status %#x: %s\n", target->how, (unsigned)status, text);
    return is_ok;
}

static void end(pid_t injector)
{
    kill(injector, SIGKILL);
    waitpid(injector, NULL, 0);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* Returns whether the target runs its own program again. */
static bool is_free(const struct target *target)
{
    const long until_ms = now_ms() + PATIENCE_MS;
    if (status_of(target->pid, "TracerPid:", 10) != 0)
        return false;
    while (status_of(target->pid, "SigBlk:", 16) != 0) {
        if (now_ms() > until_ms || has_ended(target->pid))
            return false;
        pause_us(1000);
    }
    return !has_ended(target->pid);
}

static void test_calls(const char *how, long count)
{
    struct target target;
    struct result result = {0};
    double ms = 0;
    double sum_ms = 0;
    long good = 0;
    bool is_started = start(how, &target);
    for (long i = 0; is_started && i < count; i++) {
        good += call(&target, &ms);
        sum_ms += ms;
    }
    const bool is_ended = finish(&target, &result);
    check(is_started && is_ended && good == count && result.bad == 0 && result.interrupted == 0,
          "%s: %ld of %ld calls, stopped %.1f ms each, %llu rounds, bad %llu, interrupted %llu",
          how, good, count, sum_ms / (double)count, result.rounds, result.bad, result.interrupted);
}

/* Kills the injector while its call waits. */
static void test_waits(const char *how, long count)
{
    struct target target;
    struct result result = {0};
    char fifo[PATH_CHARS];
    long good = 0;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool is_started = start(how, &target);
    for (long i = 0; is_started && i < count; i++) {
        snprintf(fifo, sizeof(fifo), "/fifo-%s-%ld", how, i);
        if (mkfifo(fifo, 0600) != 0)
            break;
        pid_t injector = inject(&target, "probe_wait", fifo, null);
        const long until_ms = now_ms() + PATIENCE_MS;
        int writer;
        /* It can be opened once the target has opened it. */
        while ((writer = open(fifo, O_WRONLY | O_CLOEXEC | O_NONBLOCK)) < 0 && now_ms() < until_ms)
            pause_us(200);
        end(injector);
        const bool is_detached = status_of(target.pid, "TracerPid:", 10) == 0;
        if (writer >= 0)
            close(writer);
        good += is_free(&target) && is_detached && writer >= 0;
    }
    double ms;
    const bool works = is_started && call(&target, &ms);
    const bool is_ended = finish(&target, &result);
    close(null);
    /* A relative sleep ends with EINTR, as after a signal handler. */
    const unsigned long long limit = strcmp(how, "sleep") == 0 ? (unsigned long long)count : 0;
    check(works && is_ended && good == count && result.bad == 0 && result.interrupted <= limit,
          "%s: %ld of %ld injectors killed in their call, bad %llu, interrupted %llu", how, good,
          count, result.bad, result.interrupted);
}

/* Kills the injector at random moments after it has attached. */
static void test_kills(const char *how, long count)
{
    struct target target;
    struct result result = {0};
    double ms = 0;
    long good = 0;
    long attached = 0;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    /* The first call loads the library and takes longer. */
    bool is_started = start(how, &target) && call(&target, &ms) && call(&target, &ms);
    for (long i = 0; is_started && i < count; i++) {
        pid_t injector = inject(&target, "probe_enter", LOG, null);
        while (status_of(target.pid, "TracerPid:", 10) == 0 && !has_ended(injector)) {
        }
        pause_us(random() % (long)(ms * 1000 + 1));
        attached += status_of(target.pid, "TracerPid:", 10) == injector;
        end(injector);
        good += is_free(&target);
    }
    const bool works = is_started && call(&target, &ms);
    const bool is_ended = finish(&target, &result);
    close(null);
    /* Every stop interrupts epoll_wait, and a killed injector cannot repeat it. */
    const bool may_end = strcmp(how, "sleep") == 0 || strcmp(how, "epoll") == 0;
    const unsigned long long limit = may_end ? (unsigned long long)count : 0;
    check(works && is_ended && good == count && result.bad == 0 && result.interrupted <= limit,
          "%s: %ld of %ld injectors killed (%ld attached), bad %llu, interrupted %llu", how, good,
          count, attached, result.bad, result.interrupted);
}

/* A call that waits for a lock is cut off, because the thread itself may hold it. */
static void test_lock(const char *how)
{
    struct target target;
    struct result result = {0};
    double ms;
    int status = 0;
    bool is_started = start(how, &target) && call(&target, &ms);
    waitpid(inject(&target, "probe_lock", LOG, STDOUT_FILENO), &status, 0);
    const bool is_left = status_of(target.pid, "SigBlk:", 16) != 0;
    const bool works = is_started && !is_left && call(&target, &ms);
    if (is_left)
        kill(target.pid, SIGKILL);
    const bool is_ended = finish(&target, &result);
    check(works && is_ended && WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL &&
              result.bad == 0 && result.interrupted == 0,
          "%s: a call that waits for a lock, status %#x, bad %llu, interrupted %llu", how,
          (unsigned)status, result.bad, result.interrupted);
}

int main(void)
{
    static const char *const hows[] = {"spin", "wide", "sleep", "read", "epoll"};
    mkdir("/proc", 0755);
    mkdir("/dev", 0755);
    mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    srandom((unsigned)setting("seed", 1));
    printf("# hardware capabilities %#lx, scalable vectors: %s\n", getauxval(AT_HWCAP),
           getauxval(AT_HWCAP) & HWCAP_SVE ? "yes" : "no");
    test_lock("read");
    test_lock("spin");
    for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
        test_calls(hows[i], setting("calls", 20));
        test_waits(hows[i], setting("waits", 5));
        test_kills(hows[i], setting("kills", 40));
    }
    puts("# end");
    fflush(stdout);
    tcdrain(STDOUT_FILENO);
    reboot(RB_POWER_OFF);
    return 0;
}
