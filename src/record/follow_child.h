/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow_child.h -- a forked child of ours that becomes `gsprof follow`.
 *
 * Used by: run_followers.c, visit_follow.c.
 * Threads: called between fork and exec.
 */
#pragma once

#include <sys/types.h>

/* Becomes `gsprof follow PID [option]` of the user who has that process; option may be NULL.
 * Nothing of ours is left to it: no descriptor, no terminal's streams, no blocked signal.  Ends the
 * child when that cannot be. */
__attribute__((noreturn)) void gsp_follow_child(pid_t pid, const char *option);

/* Starts `gsprof follow PID` in the background, as the user who owns that process. */
void gsp_follow_apart(pid_t pid);
