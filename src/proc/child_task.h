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

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* PIPE_BUF: a result is written completely or not at all. */
#define GSP_APART_BYTES_MAX 4096U

struct gsp_apart {
    pid_t child; /* 0: not running */
    int fd;
};

enum gsp_apart_state {
    GSP_APART_RUNS,
    GSP_APART_DONE,
    GSP_APART_LOST, /* exited without a result */
};

/* Forks; the child calls work, which fills a zeroed result of `bytes` bytes. Fails with IO. */
GSP_MUST_CHECK int gsp_apart_start(struct gsp_apart *task, void (*work)(void *user, void *result),
                                   void *user, size_t bytes, struct gsp_err *err);
/* Waits up to timeout_ms for the result; -1: without a limit. */
enum gsp_apart_state gsp_apart_wait(struct gsp_apart *task, void *result, size_t bytes,
                                    int timeout_ms);
