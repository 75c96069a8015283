/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "base/time.h"
#include "record/exit_watch.h"
#include "tap.h"
#include "wire/table.h"

#define PATIENCE_NS (15 * GSP_NS_PER_S)

/* Forks a child that raises sig or exits when the write end of the pipe is closed. */
static pid_t start(int *gate, int sig, int status)
{
    int ends[2];
    tap_require(pipe(ends) == 0);
    const pid_t child = fork();
    tap_require(child >= 0);
    if (child == 0) {
        char word;
        close(ends[1]);
        if (read(ends[0], &word, 1) < 0)
            _exit(99);
        if (sig)
            kill(getpid(), sig);
        _exit(status);
    }
    close(ends[0]);
    *gate = ends[1];
    return child;
}

static void watch_exit(int sig, int status, bool reap_first, struct gsp_exit_info *out)
{
    struct gsp_exit_watch *watch = NULL;
    int gate = -1;
    const pid_t child = start(&gate, sig, status);
    tap_require(gsp_record__exit_watch_open(child, &watch, NULL) == GSP_OK);
    tap_check(!gsp_record__exit_watch_has_exited(watch));
    tap_check(!gsp_record__exit_watch_wait(watch, 0));
    close(gate);
    if (reap_first)
        tap_require(waitpid(child, NULL, 0) == child);
    tap_check(gsp_record__exit_watch_wait(watch, PATIENCE_NS));
    gsp_record__exit_watch_get(watch, out);
    tap_check(gsp_record__exit_watch_has_exited(watch));
    gsp_record__exit_watch_close(watch);
    if (!reap_first)
        tap_require(waitpid(child, NULL, 0) == child);
}

TAP_TEST(status_of_a_zombie)
{
    struct gsp_exit_info end;
    watch_exit(SIGKILL, 0, false, &end);
    tap_eq_int(end.signal, SIGKILL);
    tap_check(end.exit_status == GSP_NULL_I64);
    tap_check(strstr(end.detail, "killed by signal 9 (SIGKILL)") != NULL);
    watch_exit(0, 3, false, &end);
    tap_eq_int(end.exit_status, 3);
    tap_check(end.signal == GSP_NULL_I64);
    tap_eq_str(end.detail, "exited with status 3");
}

/* The status is right or unknown, depending on the kernel; never wrong. */
TAP_TEST(status_of_a_reaped_process)
{
    struct gsp_exit_info end;
    watch_exit(SIGTERM, 0, true, &end);
    tap_check(end.signal == SIGTERM || end.signal == GSP_NULL_I64);
    tap_check(end.exit_status == GSP_NULL_I64);
    tap_check(end.detail[0] != '\0');
}

TAP_TEST(process_that_does_not_exist)
{
    struct gsp_exit_watch *watch = NULL;
    int gate = -1;
    const pid_t child = start(&gate, 0, 0);
    close(gate);
    tap_require(waitpid(child, NULL, 0) == child);
    tap_eq_int(gsp_record__exit_watch_open(child, &watch, NULL), GSP_E_NOPROC);
    tap_check(watch == NULL);
}

TAP_TEST(closed_before_the_exit)
{
    struct gsp_exit_watch *watch = NULL;
    int gate = -1;
    const pid_t child = start(&gate, 0, 0);
    tap_require(gsp_record__exit_watch_open(child, &watch, NULL) == GSP_OK);
    gsp_record__exit_watch_close(watch);
    close(gate);
    tap_require(waitpid(child, NULL, 0) == child);
}

TAP_TEST(kernel_log_and_cgroup_counters)
{
    static const char EVENTS[] = "low 0\noom 3\noom_kill 12\noom_group_kill 1\n";
    static const char LINE[] = "3,1,2,-;Out of memory: Killed process 4242 (python3) total-vm:1kB";
    tap_eq_int(gsp_record__cgroup_counter(EVENTS, sizeof(EVENTS) - 1, "oom_kill"), 12);
    tap_eq_int(gsp_record__cgroup_counter(EVENTS, sizeof(EVENTS) - 1, "oom_kil"), 0);
    tap_eq_int(gsp_record__cgroup_counter("", 0, "oom_kill"), 0);
    tap_check(gsp_record__oom_line_is_of(LINE, sizeof(LINE) - 1, 4242));
    tap_check(!gsp_record__oom_line_is_of(LINE, sizeof(LINE) - 1, 424));
    tap_check(!gsp_record__oom_line_is_of(LINE, sizeof(LINE) - 1, 2));
}

TAP_TEST(text_of_a_status)
{
    struct gsp_exit_info end;
    gsp_record__exit_info_of_status(SIGKILL, true, &end);
    tap_check(strstr(end.detail, "out of memory") != NULL);
    gsp_record__exit_info_of_status(SIGSEGV | 0x80, false, &end);
    tap_check(strstr(end.detail, "SIGSEGV") && strstr(end.detail, "core dumped"));
    gsp_record__exit_info_of_status(0, false, &end);
    tap_eq_str(end.detail, "exited with status 0");
}

TAP_MAIN()
