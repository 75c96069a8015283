/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pager.h -- long output through the pager that the user has chosen.
 *
 * $PAGER, else less; an empty $PAGER or "cat" is none.  While it runs, SIGPIPE is ignored: who
 * leaves the pager early ends nothing else.
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct gsp_pager {
    int fd;    /* to write to; -1: there is no pager */
    pid_t pid; /* of the pager */
    struct sigaction old_pipe;
};

#define GSP_PAGER_NONE ((struct gsp_pager){.fd = -1})

/* Starts the pager on stdout; pager->fd stays -1 when there is none to be had. */
void gsp_pager_start(struct gsp_pager *pager);
/* Ends its input and waits until its user leaves it. */
void gsp_pager_end(struct gsp_pager *pager);
