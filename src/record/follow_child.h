/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow_child.h -- starts `gsprof follow` in a child process.
 *
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

/* To be called in a forked child: executes `gsprof follow PID [option]` as the owner of that
 * process; option may be NULL. Closes all file descriptors, points stdin, stdout and stderr to
 * /dev/null and resets the signals. Exits on failure. */
__attribute__((noreturn)) void gsp_follow_child(pid_t pid, const char *option);

/* Starts `gsprof follow PID` in the background, as the owner of that process. */
void gsp_follow_apart(pid_t pid);
