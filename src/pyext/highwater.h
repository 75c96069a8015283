/* SPDX-License-Identifier: Apache-2.0 */
/*
 * highwater.h -- the most memory that was resident within any of several stretches of time, exact.
 *
 * Reads:   VmHWM, the kernel's high-water mark, which it sets back (/proc/self/clear_refs) when a
 *          stretch begins and the mark is above what is resident.  From then on ru_maxrss and VmHWM
 *          are of what came later, for the program too.
 * Gives:   stretches may overlap and lie within each other: each mark that was set back is kept for
 *          those that were open then.
 * Used by: sampler.c.
 * Threads: every function from any thread.  What is known is the process's; after fork() the child
 *          begins with nothing.
 */
#pragma once

#include <stdint.h>

/* A stretch begins: its mark, for the next.  -1: the mark cannot be set back here. */
int64_t gsp_pyext__highwater_begin(void);
/* The most since then, bytes; -1: not known. */
int64_t gsp_pyext__highwater_since(int64_t mark);
/* A stretch that had a mark is over. */
void gsp_pyext__highwater_end(void);
