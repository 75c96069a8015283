/* SPDX-License-Identifier: Apache-2.0 */
#include "record/followers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "proc/task.h"
#include "record/announcements.h"
#include "record/follow_child.h"
#include "record/launch.h"
#include "ring/dir.h"

/* Maximum number of followers at the same time. */
#define FOLLOWERS_MAX 4096U
/* Maximum number of ancestors that are checked. */
#define DEPTH_MAX     256
/* Interval between reads of the file, with and without inotify. */
#define NOTIFIED_MS   1000
#define POLLED_MS     20
/* A follower notices the exit of its process within a quarter of a second. */
#define END_NS        (2 * GSP_NS_PER_S)
#define REAP_NS       (5 * GSP_NS_PER_MS)

struct follower {
    pid_t pid;
    pid_t process;
};

struct gsp_followers {
    const struct gsp_run_file *file; /* of the announcements */
    size_t bytes;                    /* of that file, already read */
    pid_t program;
    int inotify_fd; /* -1: the file is polled */
    int wake[2];    /* a pipe; its closed write end stops the thread */
    pthread_t thread;
    struct follower *at;
    size_t count;
    size_t capacity;
    size_t no_space; /* followers that could not create rings */
};

/* Removes followers that have exited. */
static void reap(struct gsp_followers *all)
{
    size_t left = 0;
    for (size_t i = 0; i < all->count; i++) {
        int status = 0;
        const pid_t ended = waitpid(all->at[i].pid, &status, WNOHANG);
        if (ended == 0)
            all->at[left++] = all->at[i];
        else if (ended > 0 && WIFEXITED(status) &&
                 WEXITSTATUS(status) == gsp_err_exit_status(GSP_E_NOWRITE))
            all->no_space++;
    }
    all->count = left;
}

static bool is_followed(const struct gsp_followers *all, pid_t process)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].process == process)
            return true;
    return process == all->program;
}

static bool is_below(pid_t pid, pid_t program)
{
    pid_t group = 0;
    pid_t parent = 0;
    for (int i = 0; i < DEPTH_MAX && pid > 1; i++) {
        if (pid == program)
            return true;
        if (!gsp_proc_parent(pid, &group, &parent))
            return false;
        pid = parent;
    }
    return false;
}

/* A pid from another namespace may mean another process here. A process is part of the run only if
 * it is below the program, or has the path of our file in its environment. */
static bool is_in_run(const struct gsp_followers *all, pid_t process)
{
    gsp_auto_buf file = {0};
    return is_below(process, all->program) ||
           (gsp_proc_env(process, "GSPROF_RUN_FILE", &file) &&
            gsp_sv_eq(gsp_buf_sv(&file), gsp_sv_of(all->file->path)));
}

/* Under sudo, the program may start programs as other users, whose stacks its user may not read. */
static bool is_of_owner(pid_t process)
{
    const uid_t owner = gsp_record_launch_user();
    return owner == geteuid() || gsp_ring_dir_owner(process) == owner;
}

static bool needs_follower(const struct gsp_followers *all, pid_t process)
{
    gsp_auto_buf word = {0};
    struct gsp_procinfo info;
    if (is_followed(all, process) || gsp_proc_info(process, &info, NULL) < 0 || info.state == 'Z' ||
        !is_in_run(all, process) || !is_of_owner(process))
        return false;
    const bool is_set = gsp_proc_env(process, "GSPROF_FOLLOW", &word);
    const char *text = is_set ? gsp_buf_cstr(&word) : NULL;
    return !text || (strcmp(text, "0") != 0 && strcasecmp(text, "off") != 0);
}

/* Starts a follower. A failure does not matter to the program. */
static int follow_process(void *user, pid_t process, bool is_well, struct gsp_err *err)
{
    struct gsp_followers *all = user;
    (void)err;
    reap(all);
    if (!is_well || !needs_follower(all, process) || all->count >= FOLLOWERS_MAX ||
        !gsp_array_fit(&all->at, &all->capacity, all->count + 1))
        return GSP_OK;
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        gsp_record__follow_exec(process, "--no-metrics");
    }
    if (pid > 0)
        all->at[all->count++] = (struct follower){pid, process};
    return GSP_OK;
}

/* Returns false if the thread has to end. */
static bool wait_for_lines(const struct gsp_followers *all)
{
    char events[4096];
    struct pollfd ready[] = {{.fd = all->wake[0], .events = POLLIN},
                             {.fd = all->inotify_fd, .events = POLLIN}};
    const int n = poll(ready, GSP_COUNT(ready), all->inotify_fd >= 0 ? NOTIFIED_MS : POLLED_MS);
    if (n > 0 && ready[0].revents)
        return false;
    if (n > 0 && ready[1].revents)
        gsp_ignore(read(all->inotify_fd, events, sizeof(events)) < 0);
    return true;
}

static void *follow_announced(void *arg)
{
    struct gsp_followers *all = arg;
    do {
        gsp_ignore(
            gsp_record__announcements_next(all->file->fd, &all->bytes, follow_process, all, NULL));
        reap(all);
    } while (wait_for_lines(all));
    return NULL;
}

static void free_all(struct gsp_followers *all)
{
    gsp_fd_close(&all->inotify_fd);
    gsp_fd_close(&all->wake[0]);
    gsp_fd_close(&all->wake[1]);
    free(all->at);
    free(all);
}

/* Watches the file itself: its path may lead to another file by now. Returns -1 if that fails. */
static int watch(const struct gsp_run_file *file)
{
    char path[64];
    gsp_auto_fd fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    return fd >= 0 && inotify_add_watch(fd, path, IN_MODIFY) >= 0 ? gsp_fd_release(&fd) : -1;
}

int gsp_record_followers_start(const struct gsp_run_file *file, pid_t program,
                               struct gsp_followers **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_followers *all = calloc(1, sizeof(*all));
    if (!all)
        return gsp_err_nomem(err);
    all->program = program;
    all->file = file;
    all->wake[0] = all->wake[1] = -1;
    all->inotify_fd = watch(file);
    if (pipe2(all->wake, O_CLOEXEC) != 0 ||
        gsp_thread_start(&all->thread, follow_announced, all) != 0) {
        free_all(all);
        return gsp_err_set(err, GSP_E_NOMEM, 0, "cannot start a thread for the followers");
    }
    *out = all;
    return GSP_OK;
}

static void terminate_running(const struct gsp_followers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct gsp_procinfo info;
        if (gsp_proc_info(all->at[i].process, &info, NULL) == GSP_OK && info.state != 'Z')
            kill(all->at[i].pid, SIGTERM);
    }
}

size_t gsp_record_followers_stop(struct gsp_followers *followers)
{
    const struct timespec pause = {.tv_nsec = REAP_NS};
    const int64_t until_ns = gsp_now_ns() + END_NS;
    if (!followers)
        return 0;
    gsp_fd_close(&followers->wake[1]);
    followers->wake[1] = -1;
    pthread_join(followers->thread, NULL);
    terminate_running(followers);
    reap(followers);
    while (followers->count > 0 && gsp_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        reap(followers);
    }
    for (size_t i = 0; i < followers->count; i++) {
        kill(followers->at[i].pid, SIGKILL);
        waitpid(followers->at[i].pid, NULL, 0);
    }
    const size_t no_space = followers->no_space;
    free_all(followers);
    return no_space;
}
