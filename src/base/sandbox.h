/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h -- whether this process has put itself into a sandbox: a filter of system calls, which
 * may kill a process that opens a file.
 *
 * Used by: agent/ (notes and asks), ring/ (asks).
 * Threads: noted by one, before others ask.
 * Signal-safe: yes.
 * Allocates: never.
 */
#pragma once

#include <stdbool.h>

/* Remembers how it is now; only the first call counts.  Containers have a filter from the start. */
void gsp_sandbox_note(void);
/* Whether a filter has come since; false where nothing was noted. */
bool gsp_sandbox_is_new(void);
