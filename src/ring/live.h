/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h -- whether the process that wrote a ring still runs.
 *
 * Reads:   /proc.
 * Used by: place.c, writer.c, the agent; daemon/ (whether a recording can go on).
 * Threads: no state.
 * Signal-safe: no.
 * Allocates: gsp_live_is_mapped() does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Clock ticks since boot when a process started, and its state letter; false when there is no
 * such process (a zombie is one: its state is Z). */
bool gsp_live_start_time(pid_t pid, uint64_t *ticks, char *state);

/* The inode of this process's pid namespace; 0: unknown. */
uint64_t gsp_live_pid_ns(void);

/* Whether a process with this pid and start time runs; pid is of the namespace pid_ns (0: ours).
 * Where that cannot be seen from here the answer is yes: nothing is cleaned by mistake. */
bool gsp_live_is(pid_t pid, uint64_t start_time, uint64_t pid_ns);

/* Whether this process has the file mapped: it is being written, perhaps by another copy of this
 * code.  name is how its path ends.  Yes where that cannot be found out. */
bool gsp_live_is_mapped(const char *name, ino_t ino);
