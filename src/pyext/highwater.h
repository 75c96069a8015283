/* SPDX-License-Identifier: Apache-2.0 */
/*
 * highwater.h -- the exact peak of resident memory within intervals.
 *
 * Reads:   VmHWM, the kernel's high-water mark. Resets it (/proc/self/clear_refs) when an interval
 *          begins and the mark is above the resident memory; the program's own ru_maxrss and VmHWM
 *          then also start from there.
 * Gives:   the peak of each interval. Intervals may overlap and nest: a mark is stored before it is
 *          reset, for the intervals open at that time.
 * Threads: every function from any thread. The state is per process; a child of fork() starts
 *          empty.
 */
#pragma once

#include <stdint.h>

/* Begins an interval; returns its mark, for gsp_pyext__highwater_since(), or -1 if the kernel's
 * mark cannot be reset. */
int64_t gsp_pyext__highwater_begin(void);
/* Returns the peak since then in bytes; -1: not known. */
int64_t gsp_pyext__highwater_since(int64_t mark);
/* Ends an interval that has a mark. */
void gsp_pyext__highwater_end(void);
