/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pager.h -- shows long output in the user's pager.
 *
 * The pager is $PAGER, or less if unset; an empty $PAGER or "cat" disables it. SIGPIPE is ignored
 * while the pager runs, so that leaving it early does not kill gsprof.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct gsp_pager {
    int fd;    /* the pager's input; -1: no pager */
    pid_t pid; /* of the pager */
    struct sigaction old_pipe;
};

#define GSP_PAGER_NONE ((struct gsp_pager){.fd = -1})

/* Starts the pager on stdout; pager->fd stays -1 if no pager can be started. */
void gsp_cli__pager_start(struct gsp_pager *pager);
/* Closes the pager's input and waits until the user quits it. */
void gsp_cli__pager_end(struct gsp_pager *pager);
