/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge.h -- memory in transparent huge pages: how much a process has, and what the system allows.
 *
 * Reads:   /proc/<pid>/smaps_rollup, /sys/kernel/mm/transparent_hugepage/enabled.
 * Used by: cli/ (mem record).
 * Threads: no state.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define GSP_HUGE_SETTING_BYTES 16U

/* Anonymous memory of the process in huge pages; -1: not known.  The kernel walks all of the
 * process's pages for it, which takes milliseconds. */
int64_t gsp_collect_huge_bytes(pid_t pid);
/* "always", "madvise" or "never"; "" when the system does not tell. */
void gsp_collect_huge_setting(char out[GSP_HUGE_SETTING_BYTES]);
