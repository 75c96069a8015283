/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/child_task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

static _Noreturn void run_child(void (*work)(void *user, void *result), void *user, size_t bytes,
                                int fd)
{
    char result[GSP_CHILD_TASK_RESULT_MAX] __attribute__((aligned(16))) = {0};
    work(user, result);
    const bool done = gsp_fd_write_all(fd, result, bytes, NULL) == GSP_OK;
    _exit(done ? 0 : 1);
}

int gsp_proc_child_task_start(struct gsp_child_task *task, void (*work)(void *user, void *result),
                              void *user, size_t bytes, struct gsp_err *err)
{
    int ends[2] = {-1, -1};
    *task = (struct gsp_child_task){.fd = -1};
    const pid_t child =
        bytes <= GSP_CHILD_TASK_RESULT_MAX && pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (child == 0) {
        gsp_fd_close(&ends[0]);
        run_child(work, user, bytes, ends[1]);
    }
    const int sys = errno;
    gsp_fd_close(&ends[1]);
    if (child < 0) {
        gsp_fd_close(&ends[0]);
        return gsp_err_set(err, GSP_E_IO, sys, "cannot start a process: %s", strerror(sys));
    }
    *task = (struct gsp_child_task){.child = child, .fd = ends[0]};
    return GSP_OK;
}

enum gsp_child_task_state gsp_proc_child_task_wait(struct gsp_child_task *task, void *result,
                                                   size_t bytes, int timeout_ms)
{
    struct pollfd end = {.fd = task->fd, .events = POLLIN};
    int ready = poll(&end, 1, timeout_ms);
    while (ready < 0 && errno == EINTR && timeout_ms < 0)
        ready = poll(&end, 1, timeout_ms);
    if (ready <= 0)
        return GSP_CHILD_TASK_RUNNING;
    const ssize_t got = read(task->fd, result, bytes);
    gsp_fd_close(&task->fd);
    while (waitpid(task->child, NULL, 0) < 0 && errno == EINTR)
        continue;
    task->child = 0;
    return got == (ssize_t)bytes ? GSP_CHILD_TASK_DONE : GSP_CHILD_TASK_FAILED;
}
