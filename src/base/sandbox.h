/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h -- detects whether this process has entered a sandbox: a system call filter that may
 * kill a process that opens a file.
 *
 * Threads: one thread calls gsp_sandbox_note() before others call gsp_sandbox_is_new().
 * Signal-safe: yes.
 * Allocates: never.
 */
#pragma once

#include <stdbool.h>

/* Stores the present filter state; in a container, a filter exists from the start. Later calls do
 * nothing. */
void gsp_sandbox_note(void);
/* Whether a filter was installed since gsp_sandbox_note(). False without that call. */
bool gsp_sandbox_is_new(void);
