/* SPDX-License-Identifier: Apache-2.0 */
/*
 * births.h -- finds the processes started since the last call, without a scan of /proc.
 *
 * The kernel assigns ids in ascending order and reports the newest one (/proc/loadavg). While it
 * does not change, no process has started; otherwise only the ids in between are checked.
 *
 * Reads:   /proc/loadavg, /proc/<id>/status of the ids in between.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define GSP_BIRTHS_MAX 512

struct gsp_births {
    int fd;       /* -1: /proc/loadavg is not available */
    pid_t before; /* the newest id at the call before the last one */
    pid_t last;   /* the newest id at the last call */
};

#define GSP_BIRTHS_CLOSED ((struct gsp_births){.fd = -1})

void gsp_proc_births_open(struct gsp_births *births);
void gsp_proc_births_close(struct gsp_births *births);

/* Calls fn for each process started since the last call, the oldest first; some are reported twice.
 * Returns false if the processes are not known (more than GSP_BIRTHS_MAX, or the ids wrapped
 * around): the caller has to scan /proc. */
bool gsp_proc_births_each(struct gsp_births *births, void (*fn)(void *user, pid_t pid, pid_t ppid),
                          void *user);
