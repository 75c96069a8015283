/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge.h -- memory in transparent huge pages: the amount of a process, and the system setting.
 *
 * Reads:   /proc/<pid>/smaps_rollup, /sys/kernel/mm/transparent_hugepage/enabled.
 * Threads: no state.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define GSP_HUGE_SETTING_BYTES 16U

/* Anonymous memory of the process in huge pages; -1: unknown. The kernel walks all pages of the
 * process, which takes milliseconds. */
int64_t gsp_collect_huge_bytes(pid_t pid);
/* "always", "madvise" or "never"; "" if unknown. */
void gsp_collect_huge_setting(char out[GSP_HUGE_SETTING_BYTES]);
