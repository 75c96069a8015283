/* SPDX-License-Identifier: Apache-2.0 */
/*
 * births.h -- which processes were born since one asked last, without looking at all of them.
 *
 * Ids are given out in ascending order, and the kernel tells the newest (/proc/loadavg): while
 * it stays the same nothing was born, and what was born has an id in between.
 *
 * Reads:   /proc/loadavg, /proc/<id>/status of the ids in between.
 * Used by: sample/record.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define GSP_BIRTHS_MAX 512

struct gsp_births {
    int fd;       /* -1: the kernel does not tell */
    pid_t before; /* the newest id at the question before the last */
    pid_t last;   /* the newest id at the last question */
};

#define GSP_BIRTHS_CLOSED ((struct gsp_births){.fd = -1})

void gsp_births_open(struct gsp_births *births);
void gsp_births_close(struct gsp_births *births);

/* Calls fn for each process born since the last question, the oldest first; some a second time.
 * False if it cannot tell (more than GSP_BIRTHS_MAX, the ids began anew): look at all. */
bool gsp_births_each(struct gsp_births *births, void (*fn)(void *user, pid_t pid, pid_t ppid),
                     void *user);
