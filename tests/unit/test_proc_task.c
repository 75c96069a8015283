/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/stop.h"
#include "proc/task.h"
#include "tap.h"

/* Starts a child that waits for a byte, or spins until it is killed. Its comm is hostile. */
static pid_t start(bool spin, int *wake)
{
    int ends[2];
    int ready[2];
    tap_check(pipe(ends) == 0 && pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        prctl(PR_SET_NAME, "a) R 1 (b");
        char byte = 0;
        tap_check(write(ready[1], &byte, 1) == 1);
        volatile bool go_on = spin;
        while (go_on) {
        }
        while (read(ends[0], &byte, 1) < 0) {
        }
        _exit(7);
    }
    char byte;
    tap_check(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    close(ends[0]);
    *wake = ends[1];
    return pid;
}

static void end(pid_t pid, int wake)
{
    close(wake);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static char wait_for_state(const struct gsp_taskfd *task, char expected)
{
    char state = 0;
    for (int i = 0; i < 30000 && state != expected; i++) { /* 15 s */
        state = gsp_proc_taskfd_state(task);
        usleep(500);
    }
    return state;
}

TAP_TEST(a_name_with_brackets)
{
    int wake;
    pid_t pid = start(false, &wake);
    struct gsp_procinfo info;
    tap_eq_int(gsp_proc_info(pid, &info, NULL), GSP_OK);
    tap_eq_str(info.comm, "a) R 1 (b");
    tap_eq_int(info.ppid, getpid());
    tap_eq_int(info.ns_pid, pid);
    tap_check(info.start_ticks > 0);
    tap_check(info.is_forked);
    end(pid, wake);
    tap_eq_int(gsp_proc_info(pid, &info, NULL), GSP_E_NOPROC);
}

TAP_TEST(sleeping_and_running)
{
    int wake;
    struct gsp_taskfd task;
    pid_t pid = start(false, &wake);
    tap_eq_int(gsp_proc_taskfd_open(&task, pid, pid), GSP_OK);
    tap_eq_int(wait_for_state(&task, 'S'), 'S');
    tap_check(!gsp_proc_taskfd_is_running(&task));
    uint64_t slices = gsp_proc_taskfd_slices(&task);
    tap_check(slices > 0);
    tap_eq_int(gsp_proc_taskfd_slices(&task), slices);
    end(pid, wake);
    tap_eq_int(gsp_proc_taskfd_state(&task), 0);
    tap_check(!gsp_proc_taskfd_is_running(&task));
    gsp_proc_taskfd_close(&task);

    pid = start(true, &wake);
    tap_eq_int(gsp_proc_taskfd_open(&task, pid, pid), GSP_OK);
    tap_eq_int(wait_for_state(&task, 'R'), 'R');
    tap_check(gsp_proc_taskfd_is_running(&task));
    gsp_proc_taskfd_close(&task);
    end(pid, wake);
}

static void note_child(void *user, pid_t child)
{
    *(pid_t *)user = child;
}

TAP_TEST(children_are_found)
{
    int wake;
    pid_t pid = start(false, &wake);
    pid_t found = 0;
    gsp_proc_children(getpid(), note_child, &found);
    tap_eq_int(found, pid);
    end(pid, wake);
}

TAP_TEST(a_stop_and_a_release)
{
    int wake;
    pid_t pid = start(true, &wake);
    struct gsp_stop *stop;
    struct gsp_taskfd task;
    tap_eq_int(gsp_proc_taskfd_open(&task, pid, pid), GSP_OK);
    tap_eq_int(gsp_proc_stop_new(pid, &stop, NULL), GSP_OK);
    struct gsp_err err = {0};
    int rc = gsp_proc_stop_hold(stop, 1000000000, &err);
    if (rc == GSP_E_PERM)
        tap_skip("needs ptrace");
    tap_eq_int(rc, GSP_OK);
    tap_eq_int(gsp_proc_taskfd_state(&task), 't');
    gsp_proc_stop_release(stop);
    tap_eq_int(wait_for_state(&task, 'R'), 'R');
    gsp_proc_stop_free(stop);
    gsp_proc_taskfd_close(&task);
    end(pid, wake);
}

/* The exit status of a child is still available to wait(), although it was traced when it ended. */
TAP_TEST(a_stop_does_not_consume_the_exit_status)
{
    int wake;
    pid_t pid = start(false, &wake);
    struct gsp_stop *stop;
    tap_eq_int(gsp_proc_stop_new(pid, &stop, NULL), GSP_OK);
    close(wake);
    for (int i = 0; i < 200; i++) {
        int rc = gsp_proc_stop_hold(stop, 100000000, NULL);
        if (rc == GSP_E_PERM)
            break;
        if (rc != GSP_OK) {
            tap_eq_int(rc, GSP_E_NOPROC);
            break;
        }
        gsp_proc_stop_release(stop);
    }
    gsp_proc_stop_free(stop);
    int status = 0;
    tap_eq_int(waitpid(pid, &status, 0), pid);
    tap_check(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* The kernel returns EPERM for a zombie, as for a process that may not be traced. */
TAP_TEST(a_stop_of_a_zombie)
{
    int wake;
    pid_t pid = start(false, &wake);
    struct gsp_stop *stop;
    struct gsp_taskfd task;
    tap_eq_int(gsp_proc_taskfd_open(&task, pid, pid), GSP_OK);
    tap_eq_int(gsp_proc_stop_new(pid, &stop, NULL), GSP_OK);
    close(wake);
    tap_eq_int(wait_for_state(&task, 'Z'), 'Z');
    struct gsp_stop_regs regs;
    tap_eq_int(gsp_proc_stop_hold(stop, 100000000, NULL), GSP_E_NOPROC);
    tap_eq_int(gsp_proc_stop_hold_task(stop, pid, 100000000, &regs, NULL), GSP_E_NOPROC);
    gsp_proc_stop_free(stop);
    gsp_proc_taskfd_close(&task);
    tap_eq_int(waitpid(pid, NULL, 0), pid);
}

TAP_MAIN()
