/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "proc/births.h"
#include "proc/task.h"
#include "tap.h"

struct search {
    pid_t pid;
    pid_t ppid;
    bool found;
};

static void find_pid(void *user, pid_t pid, pid_t ppid)
{
    struct search *search = user;
    if (pid == search->pid) {
        search->found = true;
        search->ppid = ppid;
    }
}

static void *wait_here(void *user)
{
    char byte;
    while (read(*(int *)user, &byte, 1) < 0) {
    }
    return NULL;
}

TAP_TEST(a_child_is_reported_twice)
{
    struct gsp_births births;
    gsp_proc_births_open(&births);
    if (births.last <= 0)
        tap_skip("needs the newest pid in /proc/loadavg");
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    for (int i = 0; i < 3; i++) {
        struct search search = {.pid = pid};
        /* A busy machine may have started too many processes in between. */
        if (!gsp_proc_births_each(&births, find_pid, &search))
            continue;
        tap_check(search.found == (i < 2));
        tap_check(!search.found || search.ppid == getpid());
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    gsp_proc_births_close(&births);
    tap_check(!gsp_proc_births_each(&births, find_pid, &(struct search){0}));
}

TAP_TEST(a_thread_is_not_reported)
{
    int ends[2];
    tap_check(pipe(ends) == 0);
    pthread_t thread;
    struct gsp_births births;
    gsp_proc_births_open(&births);
    tap_check(pthread_create(&thread, NULL, wait_here, &ends[0]) == 0);
    struct gsp_task *tasks;
    size_t count;
    tap_eq_int(gsp_proc_tasks(getpid(), &tasks, &count, NULL), 0);
    tap_eq_int((int)count, 2);
    struct search search = {.pid = tasks[1].tid};
    gsp_proc_births_each(&births, find_pid, &search);
    tap_check(!search.found);
    pid_t group;
    pid_t ppid;
    tap_check(gsp_proc_parent(tasks[1].tid, &group, &ppid));
    tap_eq_int(group, getpid());
    tap_eq_int(ppid, getppid());
    tap_check(!gsp_proc_parent(0x3fffffff, &group, &ppid));
    free(tasks);
    close(ends[1]);
    pthread_join(thread, NULL);
    gsp_proc_births_close(&births);
}

TAP_TEST(environment_at_exec)
{
    gsp_auto_buf value = {0};
    pid_t pid = fork();
    if (pid == 0) {
        char words[][8] = {"sleep", "60", "XRANK=9", "RANK=3", "EMPTY="};
        char *const argv[] = {words[0], words[1], NULL};
        char *const env[] = {words[2], words[3], words[4], NULL};
        execve("/bin/sleep", argv, env);
        _exit(127);
    }
    for (int i = 0; i < 30000 && !gsp_proc_env(pid, "XRANK", &value); i++)
        usleep(500); /* until the child runs sleep; at most 15 s */
    gsp_buf_clear(&value);
    tap_check(gsp_proc_env(pid, "RANK", &value));
    tap_eq_str(gsp_buf_cstr(&value), "3");
    tap_check(gsp_proc_env(pid, "EMPTY", &value));
    tap_check(!gsp_proc_env(pid, "RAN", &value));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    tap_check(!gsp_proc_env(pid, "RANK", &value));
}

TAP_MAIN()
