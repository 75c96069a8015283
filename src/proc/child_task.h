/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_task.h -- runs a slow function in a child process and returns its result, a small struct.
 *
 * Several targets are injected at the same time this way: one that does not answer delays no other.
 * Threads would not do, because an injection changes the environment and the user id.
 *
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* PIPE_BUF: a result is written completely or not at all. */
#define GSP_CHILD_TASK_RESULT_MAX 4096U

struct gsp_child_task {
    pid_t child; /* 0: not running */
    int fd;
};

enum gsp_child_task_state {
    GSP_CHILD_TASK_RUNNING,
    GSP_CHILD_TASK_DONE,
    GSP_CHILD_TASK_FAILED, /* exited without a result */
};

/* Forks; the child calls work, which fills a zeroed result of `bytes` bytes. Fails with IO. */
GSP_MUST_CHECK int gsp_proc_child_task_start(struct gsp_child_task *task,
                                             void (*work)(void *user, void *result), void *user,
                                             size_t bytes, struct gsp_err *err);
/* Waits up to timeout_ms for the result; -1: without a limit. */
enum gsp_child_task_state gsp_proc_child_task_wait(struct gsp_child_task *task, void *result,
                                                   size_t bytes, int timeout_ms);
