/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h -- starts a program and holds it before its first instruction until the caller is ready.
 *
 * A program started by root through sudo runs as the user who called sudo.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_launch {
    pid_t pid;  /* 0: no program was started */
    int gate;   /* a byte written here lets the child go on; -1: done */
    int report; /* the child writes an errno here if it cannot start */
    int signal; /* that ended the program; 0: none, or not waited for yet */
};

/* Checks that a program exists, as execvp() searches for it. Fails with NOEXEC. */
GSP_MUST_CHECK int gsp_record_launch_check(const char *program, struct gsp_err *err);
/* Forks; the child waits. argv is NULL-ended and borrowed. Fails with IO. */
GSP_MUST_CHECK int gsp_record_launch_new(struct gsp_launch *launch, char *const *argv,
                                         struct gsp_err *err);
/* Lets the child execute its program. Fails with NOEXEC; the child has exited then. */
GSP_MUST_CHECK int gsp_record_launch_go(struct gsp_launch *launch, const char *program,
                                        struct gsp_err *err);
/* Executes the program in this process, with the original signal settings. Returns only on
 * failure, with NOEXEC. */
GSP_MUST_CHECK int gsp_record_launch_exec(char *const *argv, struct gsp_err *err);
/* Whether the program is still running. */
bool gsp_record_launch_is_running(const struct gsp_launch *launch);
/* Returns the signal that stopped the program, once per stop; 0: it was not stopped, or has been
 * continued. */
int gsp_record_launch_stop_signal(const struct gsp_launch *launch);
/* Waits for the exit of the program. Returns its status as a shell does (128 + signal). */
int gsp_record_launch_wait(struct gsp_launch *launch);
/* Replaces stdin and stdout by /dev/null and closes all descriptors without close-on-exec. The
 * program has inherited them, and a pipe that stays open here would not reach end of file when the
 * program closes it. */
void gsp_record_launch_drop_descriptors(void);
/* Ends a child that still waits; does nothing else. */
void gsp_record_launch_abort(struct gsp_launch *launch);

/* Returns the user who called sudo, from SUDO_UID and SUDO_GID; false if we are not root through
 * sudo. */
bool gsp_record__launch_sudo_caller(uid_t *uid, gid_t *gid);
/* Returns the user as whom programs are launched: that one, or this user. */
uid_t gsp_record_launch_user(void);

/* Forks a background process in a new session, with a pipe between the two. Returns 0 in the child,
 * where *fd is the write end, to report that it is ready; returns the child's pid in the parent,
 * where *fd is the read end. Fails with IO. */
GSP_MUST_CHECK pid_t gsp_record_background_fork(int *fd, struct gsp_err *err);
/* Returns the exit status of a background process that exited before it was ready. */
int gsp_record_background_status(pid_t child);

/* Blocks signals in this thread and the threads it starts. Ignores SIGPIPE and sets SIGCHLD to its
 * default. Programs launched later start with the original mask and dispositions. */
void gsp_record__signals_block(const sigset_t *signals);

/* Installs a handler for signals, with flags in addition to SA_SIGINFO. Signals that are ignored,
 * as under nohup or in a background shell, stay ignored. Ignores SIGPIPE and SIGXFSZ, so that the
 * write fails instead. Programs launched later start as after gsp_record__signals_block(). */
void gsp_record_signals_catch(const int *signals, size_t count,
                              void (*handler)(int, siginfo_t *, void *), int flags);
