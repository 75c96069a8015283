/* SPDX-License-Identifier: Apache-2.0 */
#include "record/followers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "proc/task.h"
#include "record/announcements.h"
#include "record/follow_child.h"

/* Followers at one time. */
#define FOLLOWERS_MAX 4096U
/* Steps from a process to its ancestors. */
#define DEPTH_MAX     256
/* Between two looks at the file: when the kernel tells of lines, and when it does not. */
#define TOLD_MS       1000
#define UNTOLD_MS     20
/* Those who follow see the end of their process within a quarter of a second. */
#define END_NS        (2 * GSP_NS_PER_S)
#define LOOK_NS       (5 * GSP_NS_PER_MS)

struct follower {
    pid_t pid;
    pid_t process;
};

struct gsp_run_followers {
    char *told_path;
    size_t told_bytes; /* of that file, as far as its lines were taken */
    pid_t program;
    int notices; /* inotify; -1: the file is looked at instead */
    int wake[2]; /* a pipe: closed at one end when the thread is to end */
    pthread_t thread;
    struct follower *at;
    size_t count;
    size_t room;
    size_t no_room; /* that had no place for tables */
};

/* Takes out those that have ended. */
static void reap(struct gsp_run_followers *all)
{
    size_t left = 0;
    for (size_t i = 0; i < all->count; i++) {
        int status = 0;
        const pid_t ended = waitpid(all->at[i].pid, &status, WNOHANG);
        if (ended == 0)
            all->at[left++] = all->at[i];
        else if (ended > 0 && WIFEXITED(status) &&
                 WEXITSTATUS(status) == gsp_err_exit_status(GSP_E_NOWRITE))
            all->no_room++;
    }
    all->count = left;
}

static bool is_followed(const struct gsp_run_followers *all, pid_t process)
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

/* A pid of another namespace names another process here: only a process below the program, or
 * one that was started with our file's name, is part of the run. */
static bool is_ours(const struct gsp_run_followers *all, pid_t process)
{
    gsp_auto_buf file = {0};
    return is_below(process, all->program) ||
           (gsp_proc_env(process, "GSPROF_RUN_FILE", &file) &&
            gsp_sv_eq(gsp_buf_sv(&file), gsp_sv_of(all->told_path)));
}

static bool is_wanted(const struct gsp_run_followers *all, pid_t process)
{
    gsp_auto_buf word = {0};
    struct gsp_procinfo info;
    if (is_followed(all, process) || gsp_proc_info(process, &info, NULL) < 0 || info.state == 'Z' ||
        !is_ours(all, process))
        return false;
    const bool is_said = gsp_proc_env(process, "GSPROF_FOLLOW", &word);
    const char *text = is_said ? gsp_buf_cstr(&word) : NULL;
    return !text || (strcmp(text, "0") != 0 && strcasecmp(text, "off") != 0);
}

static bool has_room(struct gsp_run_followers *all)
{
    if (all->count < all->room)
        return true;
    const size_t room = all->room ? all->room * 2 : 16;
    struct follower *at =
        room <= FOLLOWERS_MAX ? reallocarray(all->at, room, sizeof(*all->at)) : NULL;
    if (!at)
        return false;
    all->at = at;
    all->room = room;
    return true;
}

/* What cannot be followed is not: the program goes on. */
static int take_process(void *user, pid_t process, bool is_well, struct gsp_err *err)
{
    struct gsp_run_followers *all = user;
    (void)err;
    reap(all);
    if (!is_well || !is_wanted(all, process) || !has_room(all))
        return GSP_OK;
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        gsp_follow_child(process, "--no-metrics");
    }
    if (pid > 0)
        all->at[all->count++] = (struct follower){pid, process};
    return GSP_OK;
}

/* Whether the thread is to go on. */
static bool wait_for_lines(const struct gsp_run_followers *all)
{
    char notices[4096];
    struct pollfd asked[] = {{.fd = all->wake[0], .events = POLLIN},
                             {.fd = all->notices, .events = POLLIN}};
    const int n = poll(asked, GSP_COUNT(asked), all->notices >= 0 ? TOLD_MS : UNTOLD_MS);
    if (n > 0 && asked[0].revents)
        return false;
    if (n > 0 && asked[1].revents)
        gsp_ignore(read(all->notices, notices, sizeof(notices)) < 0);
    return true;
}

static void *watch(void *arg)
{
    struct gsp_run_followers *all = arg;
    do {
        gsp_ignore(gsp_run_told_next(all->told_path, &all->told_bytes, take_process, all, NULL));
        reap(all);
    } while (wait_for_lines(all));
    return NULL;
}

static void free_all(struct gsp_run_followers *all)
{
    gsp_fd_close(&all->notices);
    gsp_fd_close(&all->wake[0]);
    gsp_fd_close(&all->wake[1]);
    free(all->told_path);
    free(all->at);
    free(all);
}

/* Signals are the main thread's. */
static int start_thread(struct gsp_run_followers *all)
{
    sigset_t every;
    sigset_t old;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &old);
    const int failed = pthread_create(&all->thread, NULL, watch, all);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

int gsp_run_followers_start(const char *told_path, pid_t program, struct gsp_run_followers **out,
                            struct gsp_err *err)
{
    *out = NULL;
    struct gsp_run_followers *all = calloc(1, sizeof(*all));
    if (!all)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    all->program = program;
    all->told_path = strdup(told_path);
    all->wake[0] = all->wake[1] = -1;
    all->notices = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (all->notices >= 0 && inotify_add_watch(all->notices, told_path, IN_MODIFY) < 0) {
        gsp_fd_close(&all->notices);
        all->notices = -1;
    }
    if (!all->told_path || pipe2(all->wake, O_CLOEXEC) != 0 || start_thread(all) != 0) {
        free_all(all);
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no thread for the followers");
    }
    *out = all;
    return GSP_OK;
}

static void end_others(const struct gsp_run_followers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct gsp_procinfo info;
        if (gsp_proc_info(all->at[i].process, &info, NULL) == GSP_OK && info.state != 'Z')
            kill(all->at[i].pid, SIGTERM);
    }
}

size_t gsp_run_followers_stop(struct gsp_run_followers *followers)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const int64_t until_ns = gsp_now_ns() + END_NS;
    if (!followers)
        return 0;
    gsp_fd_close(&followers->wake[1]);
    followers->wake[1] = -1;
    pthread_join(followers->thread, NULL);
    end_others(followers);
    reap(followers);
    while (followers->count > 0 && gsp_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        reap(followers);
    }
    for (size_t i = 0; i < followers->count; i++) {
        kill(followers->at[i].pid, SIGKILL);
        waitpid(followers->at[i].pid, NULL, 0);
    }
    const size_t no_room = followers->no_room;
    free_all(followers);
    return no_room;
}
