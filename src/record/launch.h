/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h -- a program started by us, held before its first instruction until we are ready.
 *
 * Root who came by sudo does not hand his rights to the program: it runs as the caller.
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
    pid_t pid;  /* 0: nothing was started */
    int gate;   /* a byte lets the child go on; -1 when it has gone */
    int report; /* the child tells here why it could not start */
    int signal; /* that has ended it; 0: none, or it has not been waited for */
};

/* Whether there is such a program, where execvp() looks for it.  Fails with NOEXEC. */
GSP_MUST_CHECK int gsp_launch_check(const char *program, struct gsp_err *err);
/* Forks; the child waits.  argv is NULL-ended and borrowed.  Fails with IO. */
GSP_MUST_CHECK int gsp_launch_new(struct gsp_launch *launch, char *const *argv,
                                  struct gsp_err *err);
/* Lets the child become its program.  Fails with NOEXEC; the child is gone then. */
GSP_MUST_CHECK int gsp_launch_go(struct gsp_launch *launch, const char *program,
                                 struct gsp_err *err);
/* Becomes the program, with the signals of before.  Returns only on failure: NOEXEC. */
GSP_MUST_CHECK int gsp_launch_become(char *const *argv, struct gsp_err *err);
/* Has it not ended yet? */
bool gsp_launch_running(const struct gsp_launch *launch);
/* The signal that has stopped it, returned once for each stop; 0: it was not stopped, or goes on.
 */
int gsp_launch_stopped(const struct gsp_launch *launch);
/* Waits for its end and gives its exit status as a shell does (128 + signal). */
int gsp_launch_wait(struct gsp_launch *launch);
/* Gives up what the program has of our parent's: standard input and output, and descriptors without
 * close-on-exec.  A pipe that we held would not come to its end when the program closes it. */
void gsp_launch_leave(void);
/* Ends a child that was not let go; does nothing else. */
void gsp_launch_abort(struct gsp_launch *launch);

/* The user whom sudo took rights for; false when there is none.  Looks at euid and SUDO_UID. */
bool gsp_launch_caller(uid_t *uid, gid_t *gid);

/* Forks what goes on in the background, in a session of its own.  0 in the child, where *fd is to
 * say on that it is ready; the child's pid here, where *fd is to hear that.  Fails with IO. */
GSP_MUST_CHECK pid_t gsp_launch_apart(int *fd, struct gsp_err *err);
/* The exit status of one that ended instead of being ready. */
int gsp_launch_apart_status(pid_t child);

/* Blocks these signals in this thread and those that it starts, and sets what a parent needs:
 * SIGPIPE is ignored, SIGCHLD is not.  Programs that are launched later start with the mask and
 * the dispositions of before. */
void gsp_launch_hold(const sigset_t *signals);

/* Calls handler for these signals, with more flags than SA_SIGINFO.  Those that are ignored, as
 * nohup and background shells have it, stay so.  SIGPIPE and SIGXFSZ are ignored from here on: the
 * write fails.  Programs that are launched later start as after gsp_launch_hold(). */
void gsp_launch_catch(const int *signals, size_t count, void (*handler)(int, siginfo_t *, void *),
                      int flags);
