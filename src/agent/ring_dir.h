/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_dir.h -- the ring directory of this process, once the agent has started.
 *
 * Threads: any.
 */
#pragma once

/* Opens the directory; the caller closes it. Returns -1 if it was removed or replaced. */
int gsp_agent__ring_dir_open(void);
