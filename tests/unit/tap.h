/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tap.h -- the unit test framework.
 *
 *     TAP_TEST(adds_up)
 *     {
 *         tap_eq_int(1 + 1, 2);
 *     }
 *     TAP_MAIN()
 *
 * Every test runs in a separate process, so a crash, a leak (with ASan) or a hang fails only that
 * test. "test_x NAME" runs one test in this process, for a debugger.
 * Output: TAP on stdout.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"

/* Time limit of a test, long enough for sanitizer builds. Time spent waiting for a CPU does not
 * count, so that tests do not fail on a busy machine. */
#define TAP_LIMIT_S     60
#define TAP_EXIT_FAILED 1
#define TAP_EXIT_SKIP   77

/* Whether this is a build with ASan or TSan. Both keep freed memory for a while, and their locks
 * stay locked in a child if another thread was allocating during the fork. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAP_IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAP_IS_SANITIZED true
#endif
#endif
#ifndef TAP_IS_SANITIZED
#define TAP_IS_SANITIZED false
#endif

struct tap_test {
    const char *name;
    void (*run)(void);
    struct tap_test *next;
};

static struct tap_test *tap_first;
static struct tap_test **tap_last = &tap_first;
static int tap_failures;

/* Shared with the child. */
static struct {
    bool ended;       /* the test ran to its end, without an early exit() */
    char reason[256]; /* why it was skipped */
} * tap_note;

static inline void tap_register(struct tap_test *test)
{
    *tap_last = test;
    tap_last = &test->next;
}

/* Tests register themselves, in the order of the file. */
#define TAP_TEST(test_name)                                                                        \
    static void tap_run_##test_name(void);                                                         \
    static struct tap_test tap_test_##test_name = {#test_name, tap_run_##test_name, NULL};         \
    __attribute__((constructor)) static void tap_add_##test_name(void)                             \
    {                                                                                              \
        tap_register(&tap_test_##test_name);                                                       \
    }                                                                                              \
    static void tap_run_##test_name(void)

static inline bool tap_check_at(bool ok, const char *what, const char *file, int line)
{
    if (!ok) {
        tap_failures++;
        printf("# %s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}

static inline bool tap_eq_int_at(long long a, long long b, const char *what, const char *file,
                                 int line)
{
    bool ok = tap_check_at(a == b, what, file, line);
    if (!ok)
        printf("#   left  %lld\n#   right %lld\n", a, b);
    return ok;
}

static inline bool tap_eq_str_at(const char *a, const char *b, const char *what, const char *file,
                                 int line)
{
    bool ok = tap_check_at(a == b || (a && b && strcmp(a, b) == 0), what, file, line);
    if (!ok)
        printf("#   left  %s\n#   right %s\n", a ? a : "(null)", b ? b : "(null)");
    return ok;
}

/* Count a failure and continue. Return whether the check passed. */
#define tap_check(expr) tap_check_at((expr), #expr, __FILE__, __LINE__)
#define tap_eq_int(a, b)                                                                           \
    tap_eq_int_at((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
#define tap_eq_str(a, b)  tap_eq_str_at((a), (b), #a " equals " #b, __FILE__, __LINE__)

/* Ends the test if expr is false: for conditions that the rest of the test needs. */
#define tap_require(expr) (tap_check(expr) ? (void)0 : exit(TAP_EXIT_FAILED))

/* Ends the test as skipped. */
GSP_UNUSED __attribute__((noreturn)) static void tap_skip(const char *reason)
{
    snprintf(tap_note->reason, sizeof(tap_note->reason), "%s", reason);
    tap_note->ended = true;
    exit(TAP_EXIT_SKIP);
}

static inline int tap_run_here(const struct tap_test *test)
{
    test->run();
    tap_note->ended = true;
    return tap_failures ? TAP_EXIT_FAILED : 0;
}

/* Monotonic time in seconds. */
static inline double tap_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds that the process waited for a CPU; 0 if the kernel does not report it. */
static inline double tap_waited_s(pid_t pid)
{
    char path[64];
    char line[128] = "";
    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    char *wait = fgets(line, sizeof(line), file) ? strchr(line, ' ') : NULL;
    fclose(file);
    return wait ? strtod(wait, NULL) / 1e9 : 0;
}

/* Waits for the child, at most TAP_LIMIT_S. Returns its wait status. */
static inline int tap_wait(pid_t pid, bool *timed_out)
{
    int status = 0;
    struct timespec pause = {0, 1000000};
    const double limit_s = tap_now_s() + TAP_LIMIT_S;
    *timed_out = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (tap_now_s() >= limit_s && tap_now_s() - tap_waited_s(pid) >= limit_s) {
            *timed_out = true;
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        nanosleep(&pause, NULL);
    }
    kill(-pid, SIGKILL); /* processes that the test left running */
    return status;
}

static inline bool tap_run_forked(const struct tap_test *test, int number)
{
    tap_note->ended = false;
    tap_note->reason[0] = '\0';
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        exit(tap_run_here(test));
    }
    if (pid < 0) {
        printf("not ok %d %s # fork failed\n", number, test->name);
        return false;
    }
    setpgid(pid, pid); /* in both processes, so that neither has to wait for the other */
    bool timed_out;
    int status = tap_wait(pid, &timed_out);
    bool exited = WIFEXITED(status) && tap_note->ended;
    bool skipped = exited && WEXITSTATUS(status) == TAP_EXIT_SKIP;
    bool ok = skipped || (exited && WEXITSTATUS(status) == 0);
    if (timed_out)
        printf("# %s: timed out after %d s\n", test->name, TAP_LIMIT_S);
    else if (WIFSIGNALED(status))
        printf("# %s: killed by signal %d\n", test->name, WTERMSIG(status));
    else if (!ok)
        printf("# %s: exit status %d%s\n", test->name, WEXITSTATUS(status),
               tap_note->ended ? "" : " before its end");
    printf("%sok %d %s%s%s\n", ok ? "" : "not ", number, test->name, skipped ? " # SKIP " : "",
           skipped ? tap_note->reason : "");
    return ok;
}

static inline int tap_main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_note =
        mmap(NULL, sizeof(*tap_note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tap_note == MAP_FAILED)
        return 70;
    int count = 0;
    for (const struct tap_test *t = tap_first; t; t = t->next) {
        if (argc > 1 && strcmp(t->name, argv[1]) == 0)
            return tap_run_here(t);
        count++;
    }
    if (argc > 1) {
        fprintf(stderr, "no test named %s\n", argv[1]);
        return 64;
    }
    printf("1..%d\n", count);
    int number = 0;
    bool all_ok = true;
    for (const struct tap_test *t = tap_first; t; t = t->next)
        all_ok = tap_run_forked(t, ++number) && all_ok;
    return all_ok ? 0 : 1;
}

#define TAP_MAIN()                                                                                 \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return tap_main(argc, argv);                                                               \
    }
