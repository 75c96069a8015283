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
__attribute__((noreturn)) void gsp_record__follow_exec(pid_t pid, const char *option);

/* Starts `gsprof follow PID` in the background, as the owner of that process. */
void gsp_record_follow_in_background(pid_t pid);
