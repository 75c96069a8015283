/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h -- whether the process that wrote a ring still runs.
 *
 * Reads:   /proc.
 * Threads: no state.
 * Signal-safe: no.
 * Allocates: gsp_ring_file_is_mapped() does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the start time of a process, in clock ticks since boot, and its state letter (Z: zombie).
 * Returns false if the process does not exist. */
bool gsp_ring_process_start_time(pid_t pid, uint64_t *ticks, char *state);

/* Returns the inode of this process's pid namespace; 0: unknown. */
uint64_t gsp_ring__process_pid_ns(void);

/* Whether a process with this pid and start time runs. pid_ns is the pid namespace of the pid (0:
 * that of this process). Returns true if /proc does not show that namespace, so that no rings are
 * removed by mistake. */
bool gsp_ring_process_is_live(pid_t pid, uint64_t start_time, uint64_t pid_ns);

/* Whether this process has mapped the file, so that it or another copy of this code may be writing
 * it. `name` is the end of the path. Returns true if it cannot be determined. */
bool gsp_ring_file_is_mapped(const char *name, ino_t ino);
